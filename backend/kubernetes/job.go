package kubernetes

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/kube"
)

const (
	// outputGrace bounds the wait for the output of a pod that has ended.
	outputGrace = 3 * time.Second
	// forceAfter is when a node that has not reported the end is taken for dead, counted from the end of the longest grace.
	forceAfter = 10 * time.Second
)

// job is a pod.
type job struct {
	*kube.Job
	backend *Backend
	forcing atomic.Bool // a forceDelete is due or under way
}

// Signal deletes the pod, which is the only way to signal one: its node sends a
// SIGTERM and, after the grace, a SIGKILL. Many nodes do not shorten a grace once
// it runs, whatever the cluster says, not even for a forced deletion. So the
// grace of a Terminate is as short as it can be, and a Kill may have to wait for
// its end.
func (j *job) Signal(ctx context.Context, sig backend.Signal) error {
	select {
	case <-j.Done():
		return nil
	case <-j.Stopped:
		return nil
	default:
	}
	grace := int64((j.backend.cfg.ShutdownGrace+time.Second-1)/time.Second) + 1
	if sig == backend.Kill {
		j.Killed.Store(true)
		if !j.forcing.Swap(true) {
			time.AfterFunc(forceAfter+time.Duration(grace)*time.Second, j.forceDelete)
		}
		grace = kube.KillGrace
	}
	if err := j.Client.Delete(ctx, "pods", j.Pod(), grace); err != nil {
		return fmt.Errorf("fiber: signalling %s (pod %s): %w", j.Name, j.ID(), err)
	}
	return nil
}

// forceDelete makes the cluster forget a pod whose node does not answer.
func (j *job) forceDelete() {
	defer j.forcing.Store(false) // if it fails, the next Kill tries again
	select {
	case <-j.Stopped:
		return
	case <-j.Done(): // it has said its end before the cluster did, and is no longer watched
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if pod := j.Pod(); j.Client.Delete(ctx, "pods", pod, 0) == nil {
		j.Update(pod, true)
	}
}

// Remove kills the job if it runs, and has the pod deleted soon after its end.
func (j *job) Remove(ctx context.Context) error {
	if err := j.Finish(ctx, func() error { return j.Signal(ctx, backend.Kill) }); err != nil {
		return err
	}
	j.backend.watch.drop(j)
	if !j.Gone.Load() {
		j.backend.removals.add(j.backend.cluster.Made(), j.backend.log, j.ID())
	}
	return nil
}
