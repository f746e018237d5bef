package kubernetes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher hears from the cluster what happens to all pods of a backend, in one
// watch.
type watcher struct {
	opening sync.Mutex // held while the watch is opened

	mu      sync.Mutex
	jobs    map[string]*job
	stop    context.CancelFunc // nil when there is no watch
	stopped chan struct{}      // closed when it has ended
}

// add has a pod watched that is not there yet.
func (w *watcher) add(ctx context.Context, c *cluster, session string, j *job) error {
	w.opening.Lock()
	defer w.opening.Unlock()
	w.mu.Lock()
	open := w.stop != nil
	w.mu.Unlock()
	if !open {
		living, stop := context.WithCancel(context.Background())
		undo := context.AfterFunc(ctx, stop)
		selector := labelSession + "=" + session
		events, err := c.WatchPods(living, selector, "")
		if !undo() {
			err = ctx.Err()
		}
		if err != nil {
			stop()
			return err
		}
		w.mu.Lock()
		w.stop, w.stopped = stop, make(chan struct{})
		w.mu.Unlock()
		go w.run(living, c, selector, events)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs = map[string]*job{}
	}
	w.jobs[j.id] = j
	return nil
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

func (w *watcher) find(name string) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[name]
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

// rewatchPause is between two tries to hear from a cluster again.
const rewatchPause = 500 * time.Millisecond

// run takes in what the watch tells, and opens it again when it has ended:
// where it was, or, when the cluster does not know that any more, with a look
// at everything.
func (w *watcher) run(ctx context.Context, c *cluster, selector string, events watch.Interface) {
	defer close(w.stopped)
	version := ""
	for {
		if events != nil {
			version = w.take(ctx, events, version)
			events.Stop()
		}
		if ctx.Err() != nil {
			return
		}
		if version == "" {
			version = w.look(ctx, c, selector)
		}
		var err error
		if events, err = c.WatchPods(ctx, selector, version); err != nil {
			events, version = nil, ""
			select {
			case <-time.After(rewatchPause):
			case <-ctx.Done():
			}
		}
	}
}

// take takes in events until they end, and gives the version to go on from, ""
// when that is not known.
func (w *watcher) take(ctx context.Context, events watch.Interface, version string) string {
	for {
		var e watch.Event
		var more bool
		select {
		case e, more = <-events.ResultChan():
		case <-ctx.Done():
		}
		if !more {
			return version
		}
		pod, ok := e.Object.(*corev1.Pod)
		if !ok { // an error: too old a version, most likely
			return ""
		}
		version = pod.ResourceVersion
		if e.Type == watch.Bookmark {
			continue
		}
		j := w.find(pod.Name)
		if j == nil {
			continue
		}
		j.update(pod)
		if e.Type == watch.Deleted {
			j.deleted()
		}
	}
}

// look looks at all pods, when something may have been missed.
func (w *watcher) look(ctx context.Context, c *cluster, selector string) string {
	before := slices.DeleteFunc(w.all(), func(j *job) bool { return !j.created.Load() })
	pods, err := c.Pods(ctx, selector, false)
	if err != nil {
		return ""
	}
	there := map[string]bool{}
	for i := range pods.Items {
		there[pods.Items[i].Name] = true
		if j := w.find(pods.Items[i].Name); j != nil {
			j.update(&pods.Items[i])
		}
	}
	for _, j := range before {
		if !there[j.id] {
			j.deleted()
		}
	}
	return pods.ResourceVersion
}
