package kubernetes

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/retry"
)

// watcher receives what happens to all pods of a backend, through one watch.
type watcher struct {
	jobs sync.Map // *job, by the pod's name

	opening lock.Lock // held while the watch is opened and closed
	stop    func()    // ends the watch, nil without one
}

// add starts to watch a pod that does not exist yet.
func (w *watcher) add(ctx context.Context, c *cluster, session string, j *job) error {
	if err := w.opening.Lock(ctx); err != nil {
		return err
	}
	defer w.opening.Unlock()
	if w.stop == nil {
		if err := w.open(ctx, c, labelSession+"="+session); err != nil {
			return err
		}
	}
	w.jobs.Store(j.ID(), j)
	return nil
}

// open opens the watch, and returns when it receives; the caller holds opening.
func (w *watcher) open(ctx context.Context, c *cluster, selector string) error {
	living, cancel := context.WithCancel(context.Background())
	stopped, first := make(chan struct{}), make(chan error, 1)
	say := func(err error) {
		select {
		case first <- err:
		default:
		}
	}
	go func() {
		defer close(stopped)
		again := retry.Pauses{Longest: kube.LongestPause}
		standing := func() {
			again.Reset()
			say(nil)
		}
		pods := kube.PodWatch{Labels: selector, Tell: w.tell, Expected: w.made, Standing: standing}
		for ; living.Err() == nil; again.Wait(living) {
			say(c.WatchPods(living, pods))
		}
	}()
	stop := func() {
		cancel()
		<-stopped
	}
	var err error
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return err
	}
	w.stop = stop
	return nil
}

// tell passes a pod's new state on to its job.
func (w *watcher) tell(pod *corev1.Pod, gone bool) {
	if j, ok := w.jobs.Load(pod.Name); ok {
		j.(*job).Update(pod, gone)
	}
}

// made returns the watched pods that the cluster has made.
func (w *watcher) made() (pods []*corev1.Pod) {
	for _, j := range w.jobs.Range {
		if pod := j.(*job).Pod(); pod.UID != "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// drop forgets a pod.
func (w *watcher) drop(j *job) { w.jobs.Delete(j.ID()) }

// close ends the watch, and reports whether there was one.
func (w *watcher) close(ctx context.Context) (open bool, err error) {
	if err := w.opening.Lock(ctx); err != nil {
		return false, err
	}
	defer w.opening.Unlock()
	if w.stop == nil {
		return false, nil
	}
	w.stop()
	w.stop = nil
	return true, nil
}
