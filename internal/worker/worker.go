// Package worker is a pool's worker: the child's side of the scheduler.
//
// One goroutine reads the parent's messages; as many as the pool's
// concurrency run tasks, each one grant at a time, its tasks in order. What a
// grant has not started can be taken back at any moment, and what it has
// finished is sent on every few milliseconds, however long the next task runs.
package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// flushInterval is how long finished results may wait for others.
const flushInterval = 2 * time.Millisecond

// Link is the connection to the parent.
type Link interface {
	Post(frames ...[]byte) error
	Send(ctx context.Context, frames ...[]byte) error
}

// Options configure a worker.
type Options struct {
	Concurrency int
	// Error and Panic make errors of functions fit for travel.
	Error func(fn string, err error) *wire.Error
	Panic func(fn string, value any, stack []byte) *wire.Error
}

// Worker runs what its pool grants it.
type Worker struct {
	opts Options
	link Link
	ctx  context.Context

	mu       sync.Mutex
	work     sync.Cond // queue is not empty, or stopping
	queue    []*grant  // not started
	running  map[*grant]struct{}
	stopping bool
	idle     chan struct{} // closed when it stops and nothing runs
	flusher  *time.Timer
	flushing bool // the flusher is set
	muted    atomic.Bool
}

// New makes a worker and starts its goroutines; they run until the process
// ends. ctx is what functions get, with their call's cancellation.
func New(ctx context.Context, link Link, opts Options) *Worker {
	w := &Worker{opts: opts, link: link, ctx: ctx, running: map[*grant]struct{}{}, idle: make(chan struct{})}
	w.work.L = &w.mu
	for range opts.Concurrency {
		go w.serve()
	}
	return w
}

// Idle is closed when a stopping worker has nothing more to do.
func (w *Worker) Idle() <-chan struct{} { return w.idle }

// Handle takes a message of the pool's in. It does not block.
func (w *Worker) Handle(kind wire.Kind, frames [][]byte) error {
	switch kind {
	case wire.KindGrant:
		g := &grant{worker: w, value: frames[1:]}
		if err := g.Unpack(frames); err != nil {
			return err
		}
		g.ctx, g.cancel = context.WithCancel(w.ctx)
		g.state.Store(uint64(g.Count) << 32)
		w.mu.Lock()
		w.queue = append(w.queue, g)
		w.mu.Unlock()
		w.work.Signal()
	case wire.KindRecall:
		w.giveBack()
	case wire.KindCancel:
		var c wire.Cancel
		if err := wire.Unpack(frames, &c); err != nil {
			return err
		}
		w.cancel(c)
	case wire.KindStop:
		w.mu.Lock()
		w.stopping = true
		w.mu.Unlock()
		w.work.Broadcast()
	default:
		return fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind)
	}
	return nil
}

// Abort makes the worker end as soon as nothing runs any more. It sends no
// results from now on: what functions return whose context ends for this is
// not an outcome, and the pool runs their tasks again elsewhere.
func (w *Worker) Abort() {
	w.muted.Store(true)
	w.mu.Lock()
	w.stopping = true
	w.queue = nil
	for g := range w.running {
		g.stopAt(0)
	}
	w.mu.Unlock()
	w.work.Broadcast()
}

// serve runs grants, one after another.
func (w *Worker) serve() {
	for {
		w.mu.Lock()
		for len(w.queue) == 0 {
			if w.stopping && len(w.running) == 0 {
				select {
				case <-w.idle:
				default:
					close(w.idle)
				}
			}
			w.work.Wait()
		}
		g := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		w.running[g] = struct{}{}
		if g.Count > 1 && g.Flags&wire.Announce == 0 && !w.flushing {
			w.flushing = true
			if w.flusher == nil {
				w.flusher = time.AfterFunc(flushInterval, w.flush)
			} else {
				w.flusher.Reset(flushInterval)
			}
		}
		w.mu.Unlock()
		g.run()
	}
}

// finished takes a grant out that has sent its last word.
func (w *Worker) finished(g *grant) {
	g.cancel()
	w.mu.Lock()
	delete(w.running, g)
	w.mu.Unlock()
}

// flush sends the results that running grants have so far.
func (w *Worker) flush() {
	w.mu.Lock()
	var behind []*grant
	for g := range w.running {
		if g.Count > 1 && g.Flags&wire.Announce == 0 {
			behind = append(behind, g)
		}
	}
	w.flushing = len(behind) > 0
	if w.flushing {
		w.flusher.Reset(flushInterval)
	}
	w.mu.Unlock()
	for _, g := range behind {
		g.mu.Lock()
		if started := g.started(); g.batch != nil && started-1 > g.sent {
			g.send(wire.Results{Started: -1}, started-1)
		}
		g.mu.Unlock()
	}
}

// giveBack returns all that has not been started.
func (w *Worker) giveBack() {
	var back wire.Returned
	w.mu.Lock()
	for g := range w.running {
		if from := g.stopAt(0); from < g.Count && !g.returned {
			g.returned = true
			back.Grants = append(back.Grants, wire.Remainder{Grant: g.ID, From: from})
		}
	}
	for _, g := range w.queue {
		back.Grants = append(back.Grants, wire.Remainder{Grant: g.ID})
		g.cancel()
	}
	clear(w.queue)
	w.queue = w.queue[:0]
	w.mu.Unlock()
	w.link.Post(wire.MustPack(wire.KindReturned, back)...)
}

// cancel gives up a call's tasks from an index on.
func (w *Worker) cancel(c wire.Cancel) {
	var ended []*grant
	w.mu.Lock()
	kept := w.queue[:0]
	for _, g := range w.queue {
		if g.Call == c.Call && g.Lo >= c.From {
			ended = append(ended, g)
			continue
		}
		if g.Call == c.Call {
			g.stopAt(c.From - g.Lo)
		}
		kept = append(kept, g)
	}
	clear(w.queue[len(kept):])
	w.queue = kept
	for g := range w.running {
		if g.Call != c.Call {
			continue
		}
		g.stopAt(max(0, c.From-g.Lo))
		if g.Lo+g.started()-1 >= c.From {
			g.cancel()
		}
	}
	w.mu.Unlock()
	for _, g := range ended {
		g.cancel()
		frames, err := (&wire.Results{Grant: g.ID, Started: -1, Ended: true}).Pack(nil)
		if err == nil {
			w.link.Post(frames...)
		}
	}
}

// decode looks the function up and decodes the inputs.
func (g *grant) decode() (registry.Batch, error) {
	f, ok := registry.LookupBytes(g.Func)
	if !ok {
		return nil, fmt.Errorf("fiber: function %q is not registered in the worker", g.Func)
	}
	batch, err := f.Decode(g.value)
	if err != nil {
		return nil, err
	}
	if batch.Len() != g.Count {
		return nil, fmt.Errorf("%w: %d inputs for %d tasks", wire.ErrMalformed, batch.Len(), g.Count)
	}
	return batch, nil
}
