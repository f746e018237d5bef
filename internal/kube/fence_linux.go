package kube

import (
	"cmp"
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/logmux"
)

func init() {
	if name := os.Getenv(pid1.FenceKey); name != "" && os.Getenv(pid1.Key) == pid1.Value {
		os.Unsetenv(pid1.FenceKey) // the program is as any other
		os.Exit(pid1.Run(&fence{job: name}))
	}
}

// fence lets a program run while its pod holds the Lease, so that never two of a Job's pods run it.
type fence struct {
	job   string
	lease *lease
}

// Hold waits for the Lease. The end of a pod before this one may be known to the cluster alone: with its memory, the init of
// the pod may have been killed as well.
func (f *fence) Hold(ctx context.Context) error {
	client, err := Connect("")
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	f.lease = &lease{client: client, name: f.job, holder: cmp.Or(os.Getenv(PodNameKey), host)}
	pods := new(corev1.PodList)
	err = persist(ctx, func() (done bool, err error) {
		pods, err = client.Pods(ctx, JobSelector(f.job), false)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	var own *metav1.ObjectMeta // the Job, which may have had others of its name before
	for _, p := range pods.Items {
		if p.Name == f.lease.holder {
			own = JobOf(&p)
		}
	}
	for _, p := range pods.Items {
		by := JobOf(&p)
		if t := Judge(&p).Ended; t != nil && t.Reason == OutOfMemory && own != nil && by != nil && by.UID == own.UID {
			return fmt.Errorf("%s is not started again: its pod %s has used more memory than it may (OOMKilled); give it more with --memory", f.job, p.Name)
		}
	}
	return f.lease.take(ctx)
}

// Lost returns why the program has to end.
func (f *fence) Lost(ctx context.Context) error { return f.lease.keep(ctx) }

// Ended lets another pod go on if this one was told to end. If the program has failed by itself, its Job is to start no other.
func (f *fence) Ended(end logmux.End, told bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	switch {
	case f.lease == nil:
		return nil
	case told:
		return f.lease.release(ctx)
	case end.Code == 0:
		return nil
	}
	// The Job bears as many failures as it has seen, and not this one. With fewer it would delete this pod, whose output and end may
	// not have been read.
	c := f.lease.client
	job, err := c.Job(ctx, f.job)
	if err != nil {
		return err
	}
	failed := int(job.Status.Failed)
	if u := job.Status.UncountedTerminatedPods; u != nil {
		failed += len(u.Failed)
	}
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}, "spec": {"backoffLimit": %d}}`, FailedKey, f.lease.holder, failed)
	return c.call(ctx, "patch", "jobs", func(ctx context.Context) error {
		return of(c.REST.Patch(types.MergePatchType), c.Namespace, "jobs").Name(f.job).Body(patch).Do(ctx).Error()
	})
}
