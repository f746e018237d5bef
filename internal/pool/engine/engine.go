// Package engine runs a pool: it hands the tasks of calls to workers and
// delivers the outcome of each exactly once, whatever dies.
//
// Workers pull, by credit: one task at first, more when tasks are known to be
// short. The pending table, a row of batches in each worker, records which
// worker holds which tasks; the tasks of a lost worker run again. The engine
// knows nothing of backends, of values or of how a worker is started.
//
// One lock guards the whole engine. Tasks are encoded, sent, decoded and
// delivered without it: an event takes the lock, changes the tables, decides
// which worker gets which tasks, releases the lock, and then sends. Results that
// come together are one event.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/wire"
)

const (
	// batchSeconds is how long a batch should run: long compared to a round
	// trip, short compared to a person's patience.
	batchSeconds = 4e-3
	// chunkSeconds is the same when the caller chose the chunk size.
	chunkSeconds = 0.5e-3
	// A worker that holds less known work per slot than pipelineSeconds may be
	// given more, which hides the round trip.
	pipelineSeconds = 3e-3
	// pipelineTask is the longest task that is queued behind another one.
	pipelineTask    = 10e-3
	pipelineBatches = 64
	pipelineBytes   = 8 << 20
	// batchBytes bounds the encoded inputs of a batch.
	batchBytes = 4 << 20
	// together is how many batches for a worker leave together at most; one that
	// others wait for has quickBytes of encoded inputs at most.
	together   = 64
	quickBytes = 4 << 10
	// spreadSeconds is how much known work is worth one more worker.
	spreadSeconds = 1e-3
	// wakeSeconds is the shortest task that is worth waking an idle worker for.
	wakeSeconds = 50e-6
	// A batch is at most growth times as large as any before it in its call.
	growth = 16
	// chunkTasks bounds a batch when the caller chose the chunk size.
	chunkTasks = 256
	// The caller of a single task shorter than briefSeconds reads the result itself.
	briefSeconds = 100e-6
	// A task of announceSeconds or more is announced before it starts: the
	// message then costs next to nothing. Shorter tasks are announced only when
	// they turn out to be long, and none of either that starts as soon as it comes to a
	// worker that runs several at a time: those add up.
	announceSeconds = 10e-3
	// An open call reads ahead windowSeconds of known work for each slot,
	// bounded by windowTasks and windowBytes.
	windowSeconds = 2
	windowTasks   = 1 << 16
	windowBytes   = 64 << 20
)

// ErrClosed is the error of calls on a closed pool.
var ErrClosed = errors.New("fiber: closed")

// Options configure an Engine. None has a default: the caller sets them all.
type Options struct {
	// Start starts a worker, whose messages go to the Reader. The error may be a *StartError.
	Start func(ctx context.Context, name string, r Reader) (Process, error)
	// WhenHeld calls f once the values delivered so far hold the objects that
	// they refer to.
	WhenHeld func(f func())
	// Ending ends when this process does: Close then waits for no more tasks.
	Ending context.Context

	Log           *slog.Logger
	Events        *observe.Hub
	Label         string        // the pool's name, for events
	Name          func() string // the next worker's name, unique
	Workers       int           // at the start
	Min, Max      int           // autoscaling when Max > 0
	Concurrency   int           // tasks at a time in one worker
	MaxTasks      int           // per worker process, 0 for no limit
	MaxAttempts   int
	IdleTimeout   time.Duration // after which an autoscaled worker ends
	CancelGrace   time.Duration
	ShutdownGrace time.Duration
	Closed        error // of calls after the pool's end; the default is ErrClosed
}

// Reader takes a worker's messages. One goroutine at a time calls its methods, but for Idle.
type Reader interface {
	Handle(kind wire.Kind, frames [][]byte)
	// Handled is called after the last of some messages that came together. What follows from them may wait for it.
	Handled()
	// Idle says whether the worker holds no tasks, whose results would be due.
	Idle() bool
}

// StartError says why a worker did not start, and what follows from that.
type StartError struct {
	Err       error
	Permanent bool // another try would fail, too
	Ending    bool // this process is ending; the error is not logged
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Engine runs calls on workers. Its methods may be called concurrently.
type Engine struct {
	opts Options

	mu        sync.Mutex
	started   bool
	closing   bool // no more calls
	ended     bool // no more workers
	over      bool // those that are left are killed
	givenUp   int  // tasks that nobody finishes, since the pool was ended
	target    int  // workers wanted
	workers   []*worker
	launched  int
	roster    roster
	calls     map[*Call]struct{}
	cuts      []*Call // those that were open when the pool was closed
	queue     []*Call // takes turns: calls with tasks to give, and some that had; the highest priority first
	dropped   int     // calls dropped while in it, since drop last looked through it
	suspects  []suspect
	reserving bool   // workers are kept free for them
	paused    byTime // of tasks that have failed and run again
	stale     int    // of these, the unwanted ones
	waiters   []*waiter
	funcs     map[string]*funcStats
	batches   map[uint64]*batch // what workers hold
	lastID    uint64

	senders  []*worker // that have been given something since tick last ran, or that have something unsent
	outgoing []*batch  // to be sent when the lock is released
	after    []func()  // to be called then

	failures  int       // failed starts since the last success
	failure   error     // why the last of them failed
	young     int       // consecutive workers that died young
	notBefore time.Time // no worker is started earlier
	starved   time.Time // since when work waits while workers run unwanted tasks
	timer     *time.Timer
	timerAt   time.Time
	running   sync.WaitGroup // one for each worker

	stats Counters
}

// Counters count what has happened since the engine was made.
type Counters struct {
	TasksDone, TasksFailed, TasksRetried int
	WorkersStarted, WorkersLost          int
	WorkersKilled                        int // since they ran unwanted tasks for too long
}

// New makes an engine. Workers are started when the first call, or Up, needs
// them.
func New(opts Options) *Engine {
	if opts.Closed == nil {
		opts.Closed = ErrClosed
	}
	return &Engine{opts: opts, target: opts.Workers, calls: map[*Call]struct{}{}, funcs: map[string]*funcStats{}, batches: map[uint64]*batch{}}
}

// Submit starts a call of total tasks; an open call may be extended with more.
// Submit does not block. The only error is ErrClosed.
func (e *Engine) Submit(source Source, total int, open bool, opts CallOptions) (*Call, error) {
	c := &Call{engine: e, opts: opts, source: source, total: total, open: open,
		own: funcStats{seconds: -1}, limit: math.MaxInt, held: row{kind: ofCall}}
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return nil, e.opts.Closed
	}
	e.lastID++
	c.id = e.lastID
	if c.number = opts.Number; c.number == 0 {
		c.number = observe.NextCall()
	}
	if c.stats = e.funcs[opts.Func]; c.stats == nil {
		c.stats = &funcStats{seconds: -1}
		e.funcs[opts.Func] = c.stats
	}
	e.began(c, c.leaveOut(opts.Finished))
	c.opts.Finished = nil
	e.calls[c] = struct{}{}
	e.started = e.started || c.hasWork()
	e.enqueue(c)
	e.dispatch()
	for _, b := range e.outgoing {
		if b.call == c && c.opts.Awaited && b.brief() {
			c.waitsFor = b.w
		}
	}
	e.settle(c)
	e.releaseFor(hurried)
	return c, nil
}

// release ends an event: it decides what follows, releases the lock, and then
// does what must not be done under it.
func (e *Engine) release() { e.releaseFor(busy) }

// releaseFor is release in a goroutine that has so much leisure.
func (e *Engine) releaseFor(has leisure) {
	e.conclude()
	e.unlock(has)
}

// unlock releases the lock after what has been decided, and then does what must not be done under it.
func (e *Engine) unlock(has leisure) {
	outgoing, after := e.outgoing, e.after
	e.outgoing, e.after = nil, nil
	e.mu.Unlock()
	for i, b := range outgoing {
		if i == 0 || outgoing[i-1].w != b.w {
			e.send(b.w, has)
		}
	}
	for _, f := range after {
		f()
	}
}

// conclude decides what follows from an event.
func (e *Engine) conclude() {
	if !e.ended {
		e.decide()
	}
	if slices.ContainsFunc(e.outgoing, func(b *batch) bool { return !b.call.opts.Encoded }) {
		e.wake(time.Now().Add(balanceInterval)) // see relieve
	}
	e.tell()
}

// decide hands out tasks, starts and ends workers, and schedules tick for what
// is due later.
func (e *Engine) decide() {
	for _, c := range e.cuts {
		e.settle(c) // its last task may have been given up
	}
	s := e.dispatch()
	free := s.free()
	waits := len(e.suspects) > 0 || e.next(0) != nil && free == 0 // else a call holds its tasks back
	switch {
	case !waits:
		e.starved = time.Time{}
	case e.starved.IsZero() && s.abandoned > 0:
		e.starved = time.Now()
	}
	if s.spare > 0 && (s.abandoned > 0 || !waits && free > 0) {
		e.wake(time.Now().Add(balanceInterval))
	}
	e.stopIdle()
	e.scale()
	if s.abandoned > 0 { // also in workers that are to leave as of now
		e.endStuck(time.Now())
	}
}

// enqueue has a call take turns if it has tasks to give.
func (e *Engine) enqueue(c *Call) {
	if !c.queued && c.hasWork() {
		c.queued = true
		i := sort.Search(len(e.queue), func(i int) bool { return e.queue[i].opts.Priority < c.opts.Priority })
		e.queue = slices.Insert(e.queue, i, c)
	}
}

// next returns the call whose turn it is after that of i others, nil if no other has a task to give.
func (e *Engine) next(i int) *Call {
	for len(e.queue) > i {
		c := e.queue[i]
		if c.hasWork() {
			return c
		}
		e.dequeue(i)
	}
	return nil
}

// requeue has a call in the queue wait for its next turn.
func (e *Engine) requeue(i int) {
	c := e.queue[i]
	e.dequeue(i)
	e.enqueue(c)
}

// dequeue removes a call from the queue.
func (e *Engine) dequeue(i int) {
	e.queue[i].queued = false
	if i > 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
		return
	}
	e.queue[0] = nil // else the call stays reachable
	e.queue = e.queue[1:]
}
