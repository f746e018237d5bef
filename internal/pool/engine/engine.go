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
// which worker gets which tasks, releases the lock, and then sends.
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
	// spreadSeconds is how much known work is worth one more worker.
	spreadSeconds = 1e-3
	// wakeSeconds is the shortest task that is worth waking an idle worker for.
	wakeSeconds = 50e-6
	// A batch is at most growth times as large as any before it in its call.
	growth = 16
	// chunkTasks bounds a batch when the caller chose the chunk size.
	chunkTasks = 256
	// A single task shorter than inlineSeconds runs on the goroutine that reads
	// the worker's messages.
	inlineSeconds = 100e-6
	// A task of announceSeconds or more is announced before it starts: the
	// message then costs next to nothing. Shorter tasks are announced only when
	// they turn out to be long.
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
	// Start starts a worker, which sends its messages to handle. The error may
	// be a *StartError.
	Start func(ctx context.Context, name string, handle func(wire.Kind, [][]byte)) (Process, error)
	// WhenHeld calls f once the values delivered so far hold the objects that
	// they refer to.
	WhenHeld func(f func())

	Log           *slog.Logger
	Name          func() string // the next worker's name, unique
	Workers       int           // at the start
	Min, Max      int           // autoscaling when Max > 0
	Concurrency   int           // tasks at a time in one worker
	MaxTasks      int           // per worker process, 0 for no limit
	MaxAttempts   int
	IdleTimeout   time.Duration // after which an autoscaled worker ends
	CancelGrace   time.Duration
	ShutdownGrace time.Duration
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
	target    int  // workers wanted
	workers   map[*worker]struct{}
	alive     int // workers starting and ready
	up        int // workers ready
	lists     [classes]workerList
	count     [classes]int
	batches   map[uint64]*batch
	calls     map[*Call]struct{}
	ring      *Call // calls with tasks to give; the next one
	suspects  []suspect
	spare     int     // tasks that workers hold but do not run
	abandoned int     // unwanted batches that workers still run
	load      float64 // estimated seconds of all that workers hold
	awaited   int     // callers waiting for workers to be up
	funcs     map[string]*funcStats
	lastID    uint64

	failures  int       // failed starts since the last success
	failure   error     // why the last of them failed
	young     int       // consecutive workers that died young
	notBefore time.Time // no worker is started earlier
	starved   time.Time // since when work waits while workers run unwanted tasks
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

// New makes an engine. Workers are started when the first call, or Up, needs
// them.
func New(opts Options) *Engine {
	return &Engine{opts: opts, target: opts.Workers, workers: map[*worker]struct{}{}, batches: map[uint64]*batch{},
		calls: map[*Call]struct{}{}, funcs: map[string]*funcStats{}, changed: make(chan struct{})}
}

// Submit starts a call of total tasks; an open call may be extended with more.
// Submit does not block. The only error is ErrClosed.
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

// enqueue appends a call that has tasks to give to the ring.
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

// broadcast wakes every goroutine that waits for a change.
func (e *Engine) broadcast() {
	close(e.changed)
	e.changed = make(chan struct{})
}
