package docker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// watch receives the engine's events for all containers of a backend, in one
// stream, which is open while there are containers.
type watch struct {
	engine  *engine
	session string

	mu      sync.Mutex
	jobs    map[string]*job
	stop    context.CancelFunc // nil without a stream
	stopped chan struct{}      // closed when the last stream has ended
	emptied chan struct{}      // closed when no jobs are left, nil unless settle waits
}

// add starts to watch a container that does not run yet.
func (w *watch) add(ctx context.Context, j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs = map[string]*job{}
	}
	if w.stop == nil {
		stream, stop := context.WithCancel(context.Background())
		inTime := context.AfterFunc(ctx, stop)
		messages, errs := w.open(stream, time.Time{})
		if !inTime() {
			return ctx.Err()
		}
		select {
		case err := <-errs:
			stop()
			return fmt.Errorf("the engine's events: %w", err)
		default:
		}
		w.stop, w.stopped = stop, make(chan struct{})
		go w.run(stream, messages, errs, w.stopped)
	}
	w.jobs[j.id] = j
	return nil
}

// drop forgets a container.
func (w *watch) drop(j *job) {
	j.removed()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, j.id)
	if len(w.jobs) > 0 {
		return
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	if w.emptied != nil {
		close(w.emptied)
		w.emptied = nil
	}
}

// settle kills the watched containers, waits until all are removed, or forgets
// them when ctx ends, and returns when the stream of events has ended.
func (w *watch) settle(ctx context.Context) {
	w.mu.Lock()
	var left []*job
	for _, j := range w.jobs {
		left = append(left, j)
	}
	var emptied chan struct{}
	if len(left) > 0 {
		if w.emptied == nil {
			w.emptied = make(chan struct{})
		}
		emptied = w.emptied
	}
	stopped := w.stopped
	w.mu.Unlock()
	var killing sync.WaitGroup
	for _, j := range left {
		killing.Go(func() { j.Remove(ctx) })
	}
	killing.Wait()
	if emptied != nil {
		select {
		case <-emptied:
		case <-ctx.Done():
			for _, j := range left {
				w.drop(j)
			}
		}
	}
	if stopped != nil {
		<-stopped
	}
}

// open opens the stream of events: from since on, by the engine's clock, unless since is zero.
func (w *watch) open(ctx context.Context, since time.Time) (<-chan events.Message, <-chan error) {
	opts := events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("label", labelSession+"="+w.session),
		filters.Arg("event", string(events.ActionDie)),
		filters.Arg("event", string(events.ActionOOM)),
		filters.Arg("event", string(events.ActionDestroy)),
	)}
	if !since.IsZero() {
		opts.Since = fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	}
	return w.engine.Events(ctx, opts)
}

// reopenPause is the pause before each attempt to reopen the stream.
const reopenPause = 200 * time.Millisecond

func (w *watch) run(ctx context.Context, messages <-chan events.Message, errs <-chan error, stopped chan struct{}) {
	defer close(stopped)
	var last time.Time
	for {
		select {
		case m := <-messages:
			last = time.Unix(0, m.TimeNano)
			w.happened(m)
		case <-errs:
			// The engine was restarted, most likely. Its clock and this machine's may have been set meanwhile, so events
			// may be missed; look finds what they would have told.
			for ctx.Err() == nil {
				time.Sleep(reopenPause)
				messages, errs = w.open(ctx, last)
				select {
				case <-errs:
					continue
				default:
				}
				w.look(ctx)
				break
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
}

func (w *watch) find(id string) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[id]
}

func (w *watch) happened(m events.Message) {
	j := w.find(m.Actor.ID)
	if j == nil {
		return
	}
	switch m.Action {
	case events.ActionOOM:
		j.usedTooMuch()
	case events.ActionDie:
		code, err := strconv.Atoi(m.Actor.Attributes["exitCode"])
		if err != nil {
			code = -1
		}
		j.ended(code, "")
	case events.ActionDestroy:
		w.drop(j)
	}
}

// look asks for the state of all containers, after events may have been missed.
func (w *watch) look(ctx context.Context) {
	w.mu.Lock()
	var jobs []*job
	for _, j := range w.jobs {
		jobs = append(jobs, j)
	}
	w.mu.Unlock()
	for _, j := range jobs {
		state, err := w.engine.ContainerInspect(ctx, j.id)
		switch {
		case errdefs.IsNotFound(err):
			w.drop(j)
		case err == nil && (state.State.Status == container.StateExited || state.State.Status == container.StateDead):
			if state.State.OOMKilled {
				j.usedTooMuch()
			}
			j.ended(state.State.ExitCode, state.State.Error)
		}
	}
}
