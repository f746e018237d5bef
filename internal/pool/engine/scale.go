package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

const (
	// When startTries starts in a row have failed and no worker is up, the
	// calls fail with the reason.
	startTries = 3
	// An autoscaled pool grows when it has backlogSeconds of known work per
	// slot.
	backlogSeconds = 20e-3
)

// scale starts and stops workers until there are as many as are wanted.
func (e *Engine) scale() {
	if !e.started || e.ended {
		return
	}
	e.autoscale()
	for e.alive > e.target {
		w := e.surplus()
		if w == nil {
			break
		}
		e.drain(w)
	}
	if e.alive >= e.target {
		return
	}
	if e.failures > 0 && e.up == 0 && len(e.calls) == 0 && e.awaited == 0 {
		return // the pool cannot start, and no caller waits for it
	}
	if e.failures >= startTries && e.up == 0 && e.alive > 0 {
		return // until the workers that are starting have come up or failed
	}
	if wait := time.Until(e.notBefore); wait > 0 {
		e.wake(e.notBefore)
		return
	}
	for e.alive < e.target {
		e.launch()
	}
}

// autoscale raises the target according to the backlog.
func (e *Engine) autoscale() {
	if e.opts.Max == 0 {
		return
	}
	e.target = max(e.target, e.opts.Min)
	if e.ring == nil && len(e.suspects) == 0 || e.target >= e.opts.Max {
		return
	}
	tasks, seconds, known := len(e.suspects), 0.0, true
	for c := e.ring; c != nil; {
		n := c.waiting()
		tasks += n
		if c.stats.seconds < 0 {
			known = false
		}
		seconds += max(0, c.stats.seconds) * float64(n)
		if c = c.next; c == e.ring || tasks > e.opts.Max*e.opts.Concurrency && !known {
			break
		}
	}
	coming := (e.alive - e.up) * e.opts.Concurrency
	if known && seconds/float64(max(1, e.alive*e.opts.Concurrency)) < backlogSeconds && e.alive > 0 {
		return
	}
	if missing := tasks - coming; missing > 0 {
		add := (missing + e.opts.Concurrency - 1) / e.opts.Concurrency
		e.target = min(e.opts.Max, max(e.target, e.alive+add))
	}
}

// surplus chooses a worker to end: a starting one, or else the one that holds
// the fewest tasks.
func (e *Engine) surplus() *worker {
	var best *worker
	for w := range e.workers {
		if w.state != starting && w.state != ready {
			continue
		}
		if best == nil || w.state < best.state || w.state == best.state && w.held < best.held {
			best = w
		}
	}
	return best
}

// launch starts one worker.
func (e *Engine) launch() {
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{engine: e, name: e.opts.Name(), state: starting,
		up: make(chan struct{}), stop: cancel, since: time.Now()}
	e.workers[w] = struct{}{}
	e.alive++
	e.running.Add(1)
	go e.run(ctx, w)
}

// run sees a worker from its start to its end.
func (e *Engine) run(ctx context.Context, w *worker) {
	defer e.running.Done()
	defer w.stop()
	proc, err := e.opts.Start(ctx, w.name, func(kind wire.Kind, frames [][]byte) { e.handle(w, kind, frames) })
	if err != nil {
		close(w.up)
		e.startFailed(w, err)
		return
	}
	e.mu.Lock()
	w.proc = proc
	ended, draining := e.ended, w.state == draining
	e.mu.Unlock()
	close(w.up)
	if ended {
		proc.Kill("its pool is closed")
	} else if draining {
		proc.Stop()
	}
	<-proc.Gone()
	if w.failure != nil {
		<-proc.Done()
		e.startFailed(w, w.failure)
		return
	}
	e.mu.Lock()
	never := w.state == starting && !w.ours
	e.mu.Unlock()
	if never {
		<-proc.Done()
		e.startFailed(w, proc.Lost("", 0, 0))
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
	w.state = ready
	w.since = time.Now()
	e.up++
	e.stats.WorkersStarted++
	e.failures, e.failure = 0, nil
	e.reclass(w)
	batches := e.dispatch()
	e.broadcast()
	e.mu.Unlock()
	e.send(batches)
}

// initFailed records the error of a worker's initializer; the worker ends by
// itself.
func (e *Engine) initFailed(w *worker, frames [][]byte) error {
	var done wire.Done
	if err := wire.Unpack(frames, &done); err != nil {
		return err
	}
	if done.Err != nil {
		w.failure = w.proc.Failed(done.Err)
	}
	return nil
}

// startFailed removes a worker that never became ready. When no worker can
// start, the calls fail with the reason instead of waiting.
func (e *Engine) startFailed(w *worker, err error) {
	e.mu.Lock()
	ours := w.ours || w.state == draining
	e.leave(w)
	if ours || e.ended {
		e.scale()
		e.broadcast()
		e.mu.Unlock()
		return
	}
	start := &StartError{}
	errors.As(err, &start)
	if !start.Ending {
		e.opts.Log.Warn("fiber: a worker did not start", "worker", w.name, "error", err)
	}
	e.failures++
	e.failure = err
	e.notBefore = time.Now().Add(backoff(e.failures))
	finish := func() {}
	if e.up == 0 && (e.alive == 0 && e.failures >= startTries || start.Permanent) {
		e.failures = max(e.failures, startTries)
		e.notBefore = time.Time{} // the next call tries at once
		finish = e.fail(err)
	}
	e.scale()
	e.broadcast()
	e.mu.Unlock()
	finish()
}

// drain lets a worker finish what it holds and end.
func (e *Engine) drain(w *worker) {
	switch w.state {
	case starting:
		w.state = draining
		w.ours = true
		e.alive--
		w.stop()
		if w.proc != nil { // it is running its initializer
			w.proc.Terminate()
		}
	case ready:
		w.state = draining
		e.alive--
		e.up--
		e.freed(w)
		e.wake(time.Now()) // a replacement may be wanted
		if w.abandoned > 0 {
			e.wake(time.Now().Add(e.opts.CancelGrace))
		}
	}
}

// freed is called when a worker holds less than before. The worker may be given
// more; if it is draining and holds nothing, it is told to end.
func (e *Engine) freed(w *worker) {
	e.reclass(w)
	if w.state == draining && len(w.batches) == 0 && !w.ours && w.proc != nil {
		w.ours = true
		w.proc.Stop()
	}
}
