// Package worker is the child's side of a pool: it runs the tasks that the
// engine sends.
//
// One goroutine at a time reads the parent's messages. As many others as the
// pool's concurrency run batches, each batch's tasks in order. Tasks that have
// not started can be taken back at any moment, and finished results are sent
// every few milliseconds, however long the next task runs.
package worker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
)

// flushInterval is how long finished results may wait for others.
const flushInterval = 2 * time.Millisecond

// A task thought to be short is announced when it has run for announceAfter, unless it has begun as it came.
const announceAfter = 5 * time.Millisecond

// maxQueued is how many batches wait in a worker at most. The engine hands out far
// fewer.
const maxQueued = 1024

// Link is the connection to the parent.
type Link interface {
	// Next blocks until the next message. alone says that no task is running.
	Next(alone bool) (kind wire.Kind, frames [][]byte, err error)
	Post(frames ...[]byte) error
	Send(ctx context.Context, frames ...[]byte) error
}

// Options configure a worker.
type Options struct {
	Concurrency int
	// Error turns an error of a function, such as a *guard.Panic, into one that
	// can travel.
	Error func(fn string, err error) *wire.Error
}

// Worker runs the batches that its pool sends it.
type Worker struct {
	opts Options
	link Link
	ctx  context.Context

	mu       sync.Mutex
	queue    []*batch // not started
	running  map[*batch]struct{}
	ticking  bool // tick is due to run
	fresh    bool // a batch was started since tick ran
	stopping bool
	leaving  bool           // it takes no more batches
	parcels  map[uint64]any // objects named by results, until the pool holds them
	parcel   uint64         // the number of the last one
	failure  error          // of the link
	muted    atomic.Bool
	ended    chan struct{}
	once     sync.Once
}

// Serve starts a worker and returns at once. The worker runs tasks until it is
// stopped and has nothing more to do, or until the link ends; see Wait. The
// contexts of functions are derived from ctx and end with their call.
func Serve(ctx context.Context, link Link, opts Options) *Worker {
	w := &Worker{opts: opts, link: link, ctx: ctx, running: map[*batch]struct{}{}, parcels: map[uint64]any{}, ended: make(chan struct{})}
	go turn.Serve(w.read, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(err)
	})
	return w
}

// Wait blocks until the worker has ended and returns the error of the link if
// that failed.
func (w *Worker) Wait() error {
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

func (w *Worker) end(err error) {
	w.once.Do(func() {
		w.failure = err
		close(w.ended)
	})
}

// read waits for a message of the parent's and handles it. Tasks thought to
// be short are returned as run, for the reading goroutine to call: that saves
// waking another one.
func (w *Worker) read() (run func(), err error) {
	w.mu.Lock()
	alone := len(w.running) == 0
	w.mu.Unlock()
	kind, frames, err := w.link.Next(alone)
	if err != nil {
		return nil, err
	}
	b, err := w.take(kind, frames)
	if b == nil || err != nil {
		return nil, err
	}
	if b.Flags&wire.Inline == 0 {
		go w.work(b)
		return nil, nil
	}
	return func() { w.work(b) }, nil
}

// tick has the running batches report what their parent should know before they
// end. It schedules itself again while there may be more to report.
func (w *Worker) tick() {
	w.mu.Lock()
	w.fresh = false
	var running []*batch
	for b := range w.running {
		if b.reports() {
			running = append(running, b)
		}
	}
	w.mu.Unlock()
	more := false
	for _, b := range running {
		more = b.report() || more
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ticking = more || w.fresh; w.ticking {
		self.AfterFunc(flushInterval, w.tick)
	}
}

// work runs a batch, then those in the queue.
func (w *Worker) work(b *batch) {
	for b != nil {
		b.run()
		b = w.waiting()
	}
}

// waiting removes and starts the next batch of the queue, if one may run now.
func (w *Worker) waiting() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 || len(w.running) >= w.opts.Concurrency {
		return nil
	}
	b := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	w.start(b)
	return b
}

// start adds a batch to the running ones; mu is held.
func (w *Worker) start(b *batch) {
	w.running[b] = struct{}{}
	w.fresh = true
	if !w.ticking && b.reports() {
		w.ticking = true
		self.AfterFunc(flushInterval, w.tick)
	}
}

// take handles a message of the pool's and returns the batch that is to run
// now, if any.
func (w *Worker) take(kind wire.Kind, frames [][]byte) (*batch, error) {
	switch kind {
	case wire.KindBatch:
		b := &batch{worker: w, value: frames[1:]}
		if err := b.Unpack(frames); err != nil {
			return nil, err
		}
		if b.Left > 0 {
			b.ctx, b.cancel = context.WithTimeout(w.ctx, time.Duration(b.Left)+deadlineGrace)
			b.task.deadline = time.Now().Add(time.Duration(b.Left))
		} else {
			b.ctx, b.cancel = context.WithCancel(w.ctx)
		}
		b.task.Context, b.task.batch = b.ctx, b
		b.counts.Store(uint64(b.Count) << 32)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.leaving {
			b.cancel()
			return nil, w.link.Post(wire.MustPack(wire.KindReturned, wire.Returned{Batches: []wire.Remainder{{Batch: b.ID}}})...)
		}
		if len(w.running) >= w.opts.Concurrency {
			if len(w.queue) == maxQueued {
				b.cancel()
				return nil, fmt.Errorf("%w: more than %d batches that wait", wire.ErrMalformed, maxQueued)
			}
			w.queue = append(w.queue, b)
			return nil, nil
		}
		w.start(b)
		return b, nil
	case wire.KindRecall:
		w.giveBack(wire.Returned{})
	case wire.KindCancel:
		var c wire.Cancel
		if err := wire.Unpack(frames, &c); err != nil {
			return nil, err
		}
		w.cancel(c)
	case wire.KindTaken:
		var t wire.Taken
		if err := wire.Unpack(frames, &t); err != nil {
			return nil, err
		}
		w.taken(t.Parcel)
	case wire.KindStop:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopping = true
		w.rest()
	default:
		return nil, fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind)
	}
	return nil, nil
}

// rest ends a stopping worker that has nothing more to do, once the pool holds
// all the objects that its results name; mu is held.
func (w *Worker) rest() {
	if w.stopping && len(w.running) == 0 && len(w.queue) == 0 && (len(w.parcels) == 0 || w.muted.Load()) {
		w.end(nil)
	}
}

// finished removes a batch that has sent its last results.
func (w *Worker) finished(b *batch) {
	b.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, b)
	w.rest()
}
