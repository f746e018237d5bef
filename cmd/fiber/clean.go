package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

// startAge is the age from which on a secret's run must have a pod.
const startAge = 10 * time.Minute

type cleanCommand struct {
	where
	DryRun bool `help:"Only list what would be removed."`
}

func (c *cleanCommand) Run() error { return c.onCluster(c.clean) }

func (c *cleanCommand) clean(ctx context.Context, client *kube.Client) error {
	found, err := submit.Find(ctx, client, false)
	if err != nil {
		return err
	}
	var jobs []metav1.Object // with their pods
	var pods []corev1.Pod
	for _, m := range found.Roots {
		switch job := m.Job(); {
		case !m.Ended():
		case job != nil:
			jobs = append(jobs, job)
		default:
			pods = append(append(pods, m.Pod), m.Children...)
		}
	}
	alive := map[string]bool{} // runs with a pod that has not ended
	for _, p := range append(found.Copies, found.Others...) {
		if submit.Ended(&p) {
			pods = append(pods, p)
		} else {
			alive[p.Labels[kube.LabelRun]] = true
		}
	}
	secrets, err := left(ctx, client, alive)
	if err != nil {
		return err
	}
	remove := func(kind string, o metav1.Object) {
		if err == nil && !c.DryRun {
			err = client.Delete(ctx, kind+"s", o, 0)
		}
		if err == nil {
			fmt.Println(kind + " " + o.GetName())
		}
	}
	for _, j := range jobs {
		remove("job", j)
	}
	for _, p := range pods {
		remove("pod", &p)
	}
	for _, s := range secrets {
		remove("secret", &s)
	}
	if len(jobs)+len(pods)+len(secrets) == 0 {
		if err = client.Missing(ctx); err == nil {
			fmt.Println("nothing is left in " + scope(client, false))
		}
	}
	return err
}

// left returns the secrets of runs that are not alive. The cluster removes those that a pod owns.
func left(ctx context.Context, client *kube.Client, alive map[string]bool) ([]corev1.Secret, error) {
	list, err := client.Secrets(ctx, kube.Managed)
	if err != nil || len(list) == 0 {
		return nil, nil // a user who may not list secrets has made none
	}
	now, err := client.Now(ctx) // this machine's clock may differ by a day
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(s corev1.Secret) bool {
		return len(s.OwnerReferences) > 0 || alive[s.Labels[kube.LabelRun]] || now.Sub(s.CreationTimestamp.Time) < startAge
	}), nil
}
