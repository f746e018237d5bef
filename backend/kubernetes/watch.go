package kubernetes

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// watcher receives what happens to all pods of a backend, through one watch.
type watcher struct {
	opening sync.Mutex // held while the watch is opened

	mu      sync.Mutex
	jobs    map[string]*job
	stop    context.CancelFunc // nil without a watch
	stopped chan struct{}      // closed when it has ended
}

// add starts to watch a pod that does not exist yet.
func (w *watcher) add(ctx context.Context, c *cluster, session string, j *job) error {
	w.opening.Lock()
	defer w.opening.Unlock()
	w.mu.Lock()
	open := w.stop != nil
	w.mu.Unlock()
	if !open {
		if err := w.open(ctx, c, labelSession+"="+session); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs = map[string]*job{}
	}
	w.jobs[j.id] = j
	return nil
}

// open opens the watch, and returns when it receives.
func (w *watcher) open(ctx context.Context, c *cluster, selector string) error {
	living, stop := context.WithCancel(context.Background())
	stopped, first := make(chan struct{}), make(chan error, 1)
	say := func(err error) {
		select {
		case first <- err:
		default:
		}
	}
	go func() {
		defer close(stopped)
		for pause := (kube.Backoff{}); living.Err() == nil; pause.Wait(living, nil) {
			say(c.WatchPods(living, kube.PodWatch{Labels: selector, Tell: w.tell, Expected: w.made, Standing: func() { say(nil) }}))
		}
	}()
	var err error
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		stop()
		<-stopped
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop, w.stopped = stop, stopped
	return nil
}

// tell passes a pod's new state on to its job.
func (w *watcher) tell(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	j := w.jobs[pod.Name]
	w.mu.Unlock()
	if j == nil {
		return
	}
	j.update(pod)
	if gone {
		j.deleted()
	}
}

// made returns the watched pods that the cluster has made.
func (w *watcher) made() (pods []*corev1.Pod) {
	for _, j := range w.all() {
		if pod := j.made.Load(); pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// drop forgets a pod.
func (w *watcher) drop(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, j.id)
}

func (w *watcher) all() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.jobs))
}

// close ends the watch.
func (w *watcher) close() {
	w.mu.Lock()
	stop, stopped := w.stop, w.stopped
	w.stop = nil
	w.mu.Unlock()
	if stop != nil {
		stop()
		<-stopped
	}
}
