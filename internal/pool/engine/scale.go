package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fiber-go/fiber/event"
)

const (
	// When startTries starts in a row have failed, or one for good, and no worker
	// is left or coming, the calls fail with the reason.
	startTries = 3
	// An autoscaled pool grows when it has backlogSeconds of known work per
	// slot.
	backlogSeconds = 20e-3
)

// scale starts and stops workers until there are as many as are wanted.
func (e *Engine) scale() {
	if !e.started {
		return
	}
	alive, up := e.in(starting, ready), e.in(ready)
	e.autoscale(alive, up)
	for ; alive > e.target; alive-- {
		e.drain(e.surplus())
	}
	switch {
	case alive >= e.target:
	case len(e.calls) == 0 && (e.closing || e.failures > 0 && up == 0 && len(e.waiters) == 0):
		// The pool is being closed, or cannot start and no caller waits for it.
	case e.failures >= startTries && up == 0 && alive > 0:
		// The workers that are starting must first come up or fail.
	case time.Now().Before(e.notBefore):
		e.wake(e.notBefore)
	case e.failures >= startTries && len(e.workers) > 0:
		e.launch() // is there room by now?
		e.notBefore = time.Now().Add(backoff(e.failures))
		e.wake(e.notBefore)
	default:
		for ; alive < e.target; alive++ {
			e.launch()
		}
	}
}

// autoscale raises the target according to the backlog.
func (e *Engine) autoscale(alive, up int) {
	if e.opts.Max == 0 {
		return
	}
	e.target = max(e.target, e.opts.Min)
	if e.target >= e.opts.Max {
		return
	}
	tasks, seconds, known := len(e.suspects), 0.0, true
	for _, c := range e.queue {
		n := c.waiting()
		tasks += n
		known = known && c.seconds() >= 0
		seconds += max(0, c.seconds()) * float64(n)
		if !known && tasks > e.opts.Max*e.opts.Concurrency {
			break
		}
	}
	coming := (alive - up) * e.opts.Concurrency
	if tasks <= coming || known && alive > 0 && seconds/float64(alive*e.opts.Concurrency) < backlogSeconds {
		return
	}
	add := (tasks - coming + e.opts.Concurrency - 1) / e.opts.Concurrency
	e.target = min(e.opts.Max, max(e.target, alive+add))
}

// surplus chooses a worker to end: a starting one, or else the ready one that
// holds the fewest tasks. There is one of either.
func (e *Engine) surplus() *worker {
	return slices.MinFunc(e.workers, func(a, b *worker) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.holds.tasks, b.holds.tasks))
	})
}

// launch starts one worker.
func (e *Engine) launch() {
	ctx, cancel := context.WithCancel(context.Background())
	e.launched++
	w := &worker{engine: e, name: e.opts.Name(), number: e.launched, state: starting, unsent: row{kind: toSend},
		up: make(chan struct{}), stop: cancel, since: time.Now()}
	e.workers = append(e.workers, w)
	w.changed()
	if e.opts.Events.On() {
		e.opts.Events.Tell(event.WorkerStarting{Pool: e.opts.Label, Worker: w.name})
	}
	e.running.Add(1)
	go e.run(ctx, w)
}

// run sees a worker from its start to its end.
func (e *Engine) run(ctx context.Context, w *worker) {
	defer e.running.Done()
	defer w.stop()
	proc, err := e.opts.Start(ctx, w.name, w)
	if err != nil {
		close(w.up)
		e.startFailed(w, err)
		return
	}
	e.mu.Lock()
	w.proc = proc
	ended, over, draining := e.ended, e.over, w.state == draining
	e.mu.Unlock()
	close(w.up)
	switch {
	case over:
		w.kill()
	case ended, draining: // it is running its initializer
		proc.Terminate()
	}
	<-proc.Gone()
	e.mu.Lock()
	never := w.state == starting && !w.ours
	e.mu.Unlock()
	if never {
		<-proc.Done()
		e.startFailed(w, proc.Lost("", 0))
		return
	}
	e.lost(w)
}

// ready lets a worker take tasks, once it has run its initializer.
func (e *Engine) ready(w *worker) {
	e.mu.Lock()
	if w.state != starting {
		e.mu.Unlock()
		return
	}
	if w.state = ready; e.opts.Events.On() {
		e.opts.Events.Tell(event.WorkerReady{Pool: e.opts.Label, Worker: w.name, Took: time.Since(w.since)})
	}
	w.since = time.Now()
	w.changed()
	e.stats.WorkersStarted++
	e.failures, e.failure = 0, nil
	e.release()
}

// startFailed removes a worker that never became ready. When no worker can
// start, and none is left to run tasks or make room, the calls fail with the
// reason instead of waiting.
func (e *Engine) startFailed(w *worker, err error) {
	e.mu.Lock()
	defer e.release()
	e.leave(w)
	ended := event.WorkerEnded{}
	if !w.ours {
		ended.Reason = err.Error()
	}
	e.workerEnded(w, ended)
	if w.ours {
		return
	}
	start := &StartError{}
	errors.As(err, &start)
	if !start.Ending {
		e.after = append(e.after, func() {
			e.opts.Log.Warn("fiber: a worker did not start", "worker", w.name, "error", err)
		})
	}
	e.failures++
	if start.Permanent {
		e.failures = max(e.failures, startTries)
	}
	e.failure = err
	e.notBefore = time.Now().Add(backoff(e.failures))
	if e.hopeless() {
		e.notBefore = time.Time{} // the next call tries at once
		e.fail(err)
		e.tell() // else a start would follow for a caller who is about to leave
	}
}

// hopeless reports whether no worker can start and none is there.
func (e *Engine) hopeless() bool { return e.failures >= startTries && len(e.workers) == 0 }

// drain lets a worker finish what it holds and end.
func (e *Engine) drain(w *worker) {
	switch w.state {
	case starting:
		w.state = draining
		w.ours = true
		w.changed()
		w.stop()
		if w.proc != nil { // it is running its initializer
			w.proc.Terminate()
		}
	case ready:
		w.state = draining
		w.changed()
		e.freed(w)
	}
}

// freed is called when a worker holds less than before. If it is draining and
// holds nothing, it is told to end.
func (e *Engine) freed(w *worker) {
	if w.state == draining && w.batches.n == 0 && !w.ours {
		w.ours = true
		w.changed()
		w.proc.Stop()
	}
}
