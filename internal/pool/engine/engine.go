// Package scheduler is the engine of a pool: it hands the tasks of calls to
// workers and sees to it that each is delivered once, whatever dies.
//
// Workers pull, by credit: one task at first, more when tasks are known to be
// short. The pending table, a row of batches in each worker, says who holds
// what; what a lost worker held runs again. The engine knows nothing of
// backends, of values or of how a worker is started.
//
// One lock guards all of an engine. No task is encoded, sent, decoded or
// delivered while it is held: an event changes the tables, decides who gets
// what, lets go, and then sends.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

const (
	// batchSeconds is how long the tasks granted together should run: long
	// beside a round trip, short beside a person's patience.
	batchSeconds = 4e-3
	// chunkSeconds is the same where the caller chose the chunk.
	chunkSeconds = 0.5e-3
	// pipelineSeconds is how much known work a worker may hold and still be
	// given more, which hides the round trip.
	pipelineSeconds = 3e-3
	// pipelineTask is the longest task that is queued behind another one.
	pipelineTask    = 10e-3
	pipelineBatches = 64
	pipelineBytes   = 8 << 20
	// batchBytes bounds the inputs granted together.
	batchBytes = 4 << 20
	// spreadSeconds is how much known work is worth one more worker.
	spreadSeconds = 1e-3
	// wakeSeconds is how long a task is at least that is worth waking an idle
	// worker for by itself.
	wakeSeconds = 50e-6
	// growth bounds how much more is granted together than ever before.
	growth = 16
	// chunkTasks bounds a batch where the caller chose the chunk.
	chunkTasks = 256
	// inlineSeconds is how long a task may be that keeps its worker from
	// reading.
	inlineSeconds = 100e-6
	// announceSeconds is from where on a task's start is announced before it
	// runs: the message then costs next to nothing. Shorter ones are announced
	// when they turn out not to be short.
	announceSeconds = 10e-3
	// windowSeconds is how much known work for each slot an open call reads
	// ahead; windowTasks and windowBytes bound it.
	windowSeconds = 2
	windowTasks   = 1 << 16
	windowBytes   = 64 << 20
)

// ErrClosed is what a closed pool's calls give.
var ErrClosed = errors.New("fiber: closed")

// Options configure an Engine. All are set by the caller.
type Options struct {
	// Start starts a worker, which sends its messages to handle. The error may
	// be a *StartError.
	Start func(ctx context.Context, name string, handle func(wire.Kind, [][]byte)) (Process, error)
	// WhenHeld calls f when what was delivered so far holds what it names.
	WhenHeld func(f func())

	Log           *slog.Logger
	Name          func() string // of the next worker; no two are the same
	Workers       int           // at the start
	Min, Max      int           // autoscaling when Max > 0
	Concurrency   int           // tasks at a time in one worker
	MaxTasks      int           // per worker process, 0 for no limit
	MaxAttempts   int
	IdleTimeout   time.Duration // after which an autoscaled worker ends
	CancelGrace   time.Duration
	ShutdownGrace time.Duration
}

// StartError is why a worker did not start, with what follows from that.
type StartError struct {
	Err       error
	Permanent bool // it makes no sense to try again
	Ending    bool // this process ends; it is not logged
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Engine runs calls on workers. Its methods may be called from many goroutines.
type Engine struct {
	opts Options

	mu        sync.Mutex
	started   bool
	closing   bool // no more calls
	ended     bool // no more workers
	target    int  // workers wanted
	workers   map[*worker]struct{}
	alive     int // starting and ready ones
	up        int // ready ones
	lists     [classes]workerList
	count     [classes]int
	batches   map[uint64]*batch
	calls     map[*Call]struct{}
	ring      *Call // calls with tasks to give; the next one
	suspects  []suspect
	spare     int     // tasks that workers hold without running them
	abandoned int     // batches nobody wants that workers still run
	load      float64 // estimated seconds of all that workers hold
	awaited   int     // callers waiting for workers to be up
	funcs     map[string]*funcStats
	lastID    uint64

	failures  int       // starts that failed since one succeeded
	failure   error     // the last one's reason
	young     int       // workers that died young, in a row
	notBefore time.Time // no start before
	starved   time.Time // since when work waits although workers run what nobody wants
	changed   chan struct{}
	timer     *time.Timer
	timerAt   time.Time
	running   sync.WaitGroup // one for each worker

	stats Counters
}

// Counters count what has happened since the engine was made.
type Counters struct {
	TasksDone, TasksFailed, TasksRetried int
	WorkersStarted, WorkersLost          int
}

// New makes an engine; it starts no worker before there is something to do.
func New(opts Options) *Engine {
	return &Engine{opts: opts, target: opts.Workers, workers: map[*worker]struct{}{}, batches: map[uint64]*batch{},
		calls: map[*Call]struct{}{}, funcs: map[string]*funcStats{}, changed: make(chan struct{})}
}

// Submit runs total tasks of a call, and more when it is open. It does not
// block. The error is ErrClosed.
func (e *Engine) Submit(source Source, total int, open bool, opts CallOptions) (*Call, error) {
	c := &Call{engine: e, opts: opts, name: []byte(opts.Func), source: source, total: total, open: open,
		own: funcStats{seconds: -1}, limit: math.MaxInt, unresolved: total}
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	e.lastID++
	c.id = e.lastID
	if c.stats = e.funcs[opts.Func]; c.stats == nil {
		c.stats = &funcStats{seconds: -1}
		e.funcs[opts.Func] = c.stats
	}
	e.calls[c] = struct{}{}
	e.started = true
	e.enqueue(c)
	batches := e.dispatch()
	for _, b := range batches {
		if b.call == c && c.opts.Leads && b.brisk() {
			c.leads = b.w
		}
	}
	e.scale()
	finish := e.settle(c)
	e.mu.Unlock()
	finish()
	e.send(batches)
	return c, nil
}

// enqueue puts a call that has tasks to give into the ring, last.
func (e *Engine) enqueue(c *Call) {
	if c.queued || !c.hasWork() {
		return
	}
	c.queued = true
	if e.ring == nil {
		c.prev, c.next = c, c
		e.ring = c
		return
	}
	last := e.ring.prev
	c.prev, c.next = last, e.ring
	last.next, e.ring.prev = c, c
}

func (e *Engine) dequeue(c *Call) {
	if !c.queued {
		return
	}
	c.queued = false
	if c.next == c {
		e.ring = nil
	} else {
		c.prev.next, c.next.prev = c.next, c.prev
		if e.ring == c {
			e.ring = c.next
		}
	}
	c.prev, c.next = nil, nil
}

// broadcast wakes those who wait for a change.
func (e *Engine) broadcast() {
	close(e.changed)
	e.changed = make(chan struct{})
}
