package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

// startAge is the age from which on a secret's run must have a pod.
const startAge = 10 * time.Minute

type cleanCommand struct {
	where
	DryRun bool `help:"Only list what would be removed."`
}

func (c *cleanCommand) Run() error {
	client, err := connect(c.Namespace)
	if err != nil {
		return err
	}
	ctx := context.Background()
	found, err := submit.Find(ctx, client, false)
	if err != nil {
		return err
	}
	var pods []corev1.Pod
	for _, m := range found.Roots {
		if m.Ended() {
			pods = append(append(pods, m.Pod), m.Children...)
		}
	}
	for _, p := range append(found.Copies, found.Others...) {
		if submit.Ended(&p) {
			pods = append(pods, p)
		}
	}
	for _, p := range pods {
		if !c.DryRun {
			if err := client.DeletePod(ctx, &p, 0); err != nil {
				return err
			}
		}
		fmt.Println("pod " + p.Name)
	}
	secrets, err := c.secrets(ctx, client, found, pods)
	if err != nil {
		return err
	}
	if len(pods)+secrets == 0 {
		if err := client.Missing(ctx); err != nil {
			return err
		}
		fmt.Println("nothing is left in " + scope(client, false))
	}
	return nil
}

// secrets removes the secrets of runs without a pod. The cluster removes those that a pod owns.
func (c *cleanCommand) secrets(ctx context.Context, client *kube.Client, found submit.Found, gone []corev1.Pod) (int, error) {
	removed := map[string]bool{}
	for _, p := range gone {
		removed[p.Name] = true
	}
	alive := map[string]bool{}
	for _, p := range found.Others {
		if !removed[p.Name] {
			alive[p.Labels[kube.LabelRun]] = true
		}
	}
	list, err := client.Secrets(ctx, kube.Managed)
	if err != nil {
		return 0, nil // a user who may not list secrets has made none
	}
	if len(list) == 0 {
		return 0, nil
	}
	now, err := client.Now(ctx) // this machine's clock may differ by a day
	if err != nil {
		return 0, err
	}
	n := 0
	for _, s := range list {
		if len(s.OwnerReferences) > 0 || alive[s.Labels[kube.LabelRun]] || now.Sub(s.CreationTimestamp.Time) < startAge {
			continue
		}
		if !c.DryRun {
			if err := client.Delete(ctx, "secrets", s.Name, 0); err != nil {
				return n, err
			}
		}
		n++
		fmt.Println("secret " + s.Name)
	}
	return n, nil
}
