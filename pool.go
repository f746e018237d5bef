package fiber

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// defaultIdle is how long an autoscaled worker may be idle.
const defaultIdle = 30 * time.Second

// defaultAttempts is how often a task is tried whose worker is lost.
const defaultAttempts = 3

// Pool is processes that run functions. Its methods, and the calls that use
// it, may be used from many goroutines; calls share the workers fairly.
//
// The workers start when the first function is run. One is enough to make
// progress. A worker that is lost is replaced, and what it was running runs
// again elsewhere.
//
// The workers have the resources of WithMeta, or else those of the first function
// that was registered with any. A function that needs nothing runs in every pool,
// before and after; workers that were started without resources end, when they
// have finished what they hold, and are replaced as soon as a function comes that
// needs some. A function that needs others than the workers have is refused.
type Pool struct {
	engine *engine.Engine
	proc   *process
	opts   poolOptions
	serial *atomic.Int64 // of its workers, and of those of other pools of its name

	mu        sync.Mutex
	resources *meta.Resources   // nil before the first function that needs any
	adopted   string            // that function, "" for WithMeta
	pending   map[string]string // why workers that start have to wait, by their names
}

// PoolOption is an option of NewPool.
type PoolOption interface{ applyPool(*poolOptions) error }

type poolOptions struct {
	name        string
	initializer *registry.Func
	initArg     [][]byte
	initNames   parcel // by initArg
	maxTasks    int
	min, max    int
	idle        time.Duration
	attempts    int
	concurrency int
	meta        []meta.Option
}

type poolOption func(*poolOptions) error

func (f poolOption) applyPool(o *poolOptions) error { return f(o) }

func atLeastOne(option string, n int, set func(*poolOptions)) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if n < 1 {
			return fmt.Errorf("fiber: %s(%d): it must be at least 1", option, n)
		}
		set(o)
		return nil
	})
}

// WithInitializer has fn run once in each worker before its first task. A
// worker whose initializer fails does not start; when none can start, the
// pool's calls fail with the reason.
func WithInitializer[In, Out any](fn *Func[In, Out], arg In) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if fn == nil {
			return errors.New("fiber: WithInitializer: the function is nil; register it with fiber.Register")
		}
		value, p, err := marshal([]In{arg})
		if err != nil {
			return errorf("fiber: the argument of the initializer %s: %w", fn.Name(), oneValue(err))
		}
		o.initializer, o.initArg, o.initNames = fn.entry, value, p
		return nil
	})
}

// WithMaxTasksPerChild replaces each worker process after n tasks.
func WithMaxTasksPerChild(n int) PoolOption {
	return atLeastOne("WithMaxTasksPerChild", n, func(o *poolOptions) { o.maxTasks = n })
}

// WithAutoscale starts min workers, 0 included, and more while work waits, up
// to max. Workers idle for 30 seconds (WithIdleTimeout) end, down to min. It
// overrides the number given to NewPool.
func WithAutoscale(min, max int) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if min < 0 || max < 1 || max < min {
			return fmt.Errorf("fiber: WithAutoscale(%d, %d): it takes 0 <= min <= max and max >= 1", min, max)
		}
		o.min, o.max = min, max
		return nil
	})
}

// WithIdleTimeout is how long a worker of an autoscaled pool may be idle.
// Defaults to 30 seconds.
func WithIdleTimeout(d time.Duration) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if d <= 0 {
			return fmt.Errorf("fiber: WithIdleTimeout(%v): it must be more than 0", d)
		}
		o.idle = d
		return nil
	})
}

// WithMaxAttempts is how often a task is tried when the worker that runs it
// is lost. Defaults to 3; 1 never runs a task again that was started, for
// functions that must not run twice.
func WithMaxAttempts(n int) PoolOption {
	return atLeastOne("WithMaxAttempts", n, func(o *poolOptions) { o.attempts = n })
}

// WithConcurrency has each worker run n tasks at a time. Defaults to 1.
func WithConcurrency(n int) PoolOption {
	return atLeastOne("WithConcurrency", n, func(o *poolOptions) { o.concurrency = n })
}

// WithMeta gives the workers resources, whatever function is run first. The pool
// then runs functions that were registered with these resources, or with none.
func WithMeta(m ...meta.Option) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if _, err := meta.Collect(m...); err != nil {
			return fmt.Errorf("fiber: WithMeta: %w", err)
		}
		o.meta = append(o.meta, m...)
		return nil
	})
}

// WithName names the pool; its workers are called name-1 and so on. A further
// pool of the same name goes on counting where the others are. Defaults to
// Pool1Worker for a process's first pool, Pool2Worker for its second and so on.
//
// In a process that Fiber started, the number has that process's place in the
// tree in front, as in Pool1Worker-3.1: no two workers of a run have the same
// name. It is what ps, docker ps and kubectl get pods show of a worker.
func WithName(name string) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if strings.TrimSpace(name) == "" {
			return errors.New("fiber: WithName: the name is empty")
		}
		o.name = name
		return nil
	})
}

// NewPool makes a pool of workers processes; 0 means as many as CPUCount. It
// starts none yet. Close it when it is no longer needed.
func NewPool(workers int, opts ...PoolOption) (*Pool, error) {
	proc, err := running()
	if err != nil {
		return nil, err
	}
	if workers < 0 {
		return nil, fmt.Errorf("fiber: NewPool(%d): it takes a number of workers, or 0 for one per CPU", workers)
	}
	if workers == 0 {
		workers = CPUCount()
	}
	p := &Pool{proc: proc, opts: poolOptions{idle: defaultIdle, attempts: defaultAttempts, concurrency: 1}}
	for _, o := range opts {
		if err := o.applyPool(&p.opts); err != nil {
			return nil, err
		}
	}
	if err := p.fits(p.opts.initArg); err != nil {
		return nil, errorf("fiber: the argument of the initializer %s: %w", p.opts.initializer.Name, err)
	}
	if p.opts.max > 0 {
		workers = p.opts.min
	}
	if len(p.opts.meta) > 0 {
		r, err := meta.Collect(p.opts.meta...)
		if err != nil {
			return nil, fmt.Errorf("fiber: WithMeta: %w", err)
		}
		p.resources = &r
	}
	if p.opts.name == "" {
		p.opts.name, p.serial = fmt.Sprintf("Pool%dWorker", pools.Add(1)), new(atomic.Int64)
	} else {
		serial, _ := serials.LoadOrStore(p.opts.name, new(atomic.Int64))
		p.serial = serial.(*atomic.Int64)
	}
	cfg := proc.node.Config
	p.engine = engine.New(engine.Options{
		Start: p.start, WhenHeld: proc.home.WhenHeld, Log: proc.node.Log, Name: p.workerName, Workers: workers, Min: p.opts.min, Max: p.opts.max,
		Concurrency: p.opts.concurrency, MaxTasks: p.opts.maxTasks, MaxAttempts: p.opts.attempts,
		IdleTimeout: p.opts.idle, CancelGrace: cfg.CancelGrace, ShutdownGrace: cfg.ShutdownGrace,
	})
	return p, nil
}

var (
	pools   atomic.Int64 // without a name
	serials sync.Map     // how many workers pools of a name have had: *atomic.Int64
)

// workerName is the next worker's. In a process that has a parent the number has
// this process's place in the tree in front.
func (p *Pool) workerName() string {
	place := strings.ReplaceAll(strings.TrimPrefix(p.proc.node.Place+"/", "/"), "/", ".")
	return fmt.Sprintf("%s-%s%d", p.opts.name, place, p.serial.Add(1))
}

// start starts one worker for the engine.
func (p *Pool) start(ctx context.Context, name string, handle func(wire.Kind, [][]byte)) (engine.Process, error) {
	p.mu.Lock()
	var resources meta.Resources
	if p.resources != nil {
		resources = *p.resources
	}
	p.mu.Unlock()
	spec := tree.Spec{Name: name, Resources: resources, Handle: handle,
		Assign:  wire.Assign{Role: wire.RoleWorker, Concurrency: p.opts.concurrency},
		Pending: func(reason string) { p.waits(name, reason) }}
	if p.opts.initializer != nil {
		spec.Assign.Func, spec.Value = p.opts.initializer.Name, p.opts.initArg
	}
	child, err := p.proc.node.Start(ctx, spec)
	if err != nil {
		return nil, startError(err)
	}
	return poolWorker{child}, nil
}

// waits notes why a worker that starts has to wait, "" when it does not.
func (p *Pool) waits(worker, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reason == "" {
		delete(p.pending, worker)
		return
	}
	if p.pending == nil {
		p.pending = map[string]string{}
	}
	p.pending[worker] = reason
}

// startError says of an error of a start what follows from it.
func startError(err error) error {
	var mismatch *MismatchError
	var failed *LaunchError
	ending := errors.Is(err, tree.ErrShutdown)
	return &engine.StartError{Err: err, Ending: ending, Permanent: ending || errors.Is(err, tree.ErrTooManyGPUs) ||
		errors.As(err, &mismatch) || errors.As(err, &failed) && failed.Permanent}
}

// poolWorker is a worker's process as the engine sees it.
type poolWorker struct{ *tree.Child }

func (w poolWorker) ID() string { return w.Job().ID() }

func (w poolWorker) Lost(fn string, attempt, attempts int) error {
	if attempts > 0 {
		return workerLost(w.Child, fn, attempt, attempts)
	}
	if w.Told() {
		return startError(tree.ErrShutdown)
	}
	exit := w.Exit()
	return &LaunchError{Backend: w.Backend(), Job: w.Name(),
		Reason: "it ended before it was ready: " + exit.String() + tailText(exit.Stderr)}
}

func (w poolWorker) Failed(err *wire.Error) error {
	return &LaunchError{Backend: w.Backend(), Job: w.Name(), Reason: "its initializer failed", Err: unflatten(err)}
}

func tailText(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n\t" + strings.Join(lines, "\n\t")
}

// admit checks that the pool can run a function and adopts the resources of
// the first one that needs any: workers that have none are replaced.
func (p *Pool) admit(f *registry.Func) error {
	if f.Resources.IsZero() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.resources == nil:
		p.resources, p.adopted = &f.Resources, f.Name
		p.engine.Renew()
	case f.Resources != *p.resources:
		by := "by WithMeta"
		if p.adopted != "" {
			by = "since it ran " + p.adopted + " first"
		}
		return fmt.Errorf("fiber: %s needs %v, and this pool's workers have %v %s; use another pool for it", f.Name, f.Resources, *p.resources, by)
	}
	return nil
}

// fits says whether an encoded argument is within the size of a message.
func (p *Pool) fits(frames [][]byte) error { return p.proc.fits(frames) }

// WaitUntilWorkersUp starts the workers and waits until all are ready.
func (p *Pool) WaitUntilWorkersUp(ctx context.Context) error { return p.engine.Up(ctx) }

// Resize changes the number of workers and waits until it is so: new ones are
// ready, and surplus ones have finished what they held and ended. A pool that
// has not started yet is resized at once.
func (p *Pool) Resize(ctx context.Context, workers int) error {
	if workers < 1 {
		return fmt.Errorf("fiber: Resize(%d): it must be at least 1", workers)
	}
	return p.engine.Resize(ctx, workers)
}

// Close refuses new work, waits until the pool has finished what it has, and ends
// the workers. It returns when they have gone, and may be called from anywhere,
// any number of times.
//
// An IMap that has not read all of its input yet gets no more of it: the tasks
// that run are finished, those that have not begun are not, and ErrClosed ends
// its loop.
func (p *Pool) Close() { p.engine.Close() }

// Terminate fails all calls with ErrClosed and ends the workers at once. It
// returns when they have gone.
func (p *Pool) Terminate() { p.engine.Terminate() }

// PoolStats is what a pool is doing and has done.
type PoolStats struct {
	Workers  int // wanted
	Starting int
	Ready    int
	Idle     int // of those ready
	Queued   int // tasks that no worker holds
	Running  int // tasks that workers hold

	Done           int // tasks that returned
	Failed         int // tasks that ended with an error
	Retried        int // tasks that ran, or may have run, more than once
	WorkersStarted int // that became ready
	WorkersLost    int // that ended without being told to

	Avoided        []string // nodes of a cluster that new processes avoid for a while: workers were lost there, or did not start
	Pending        []string // why workers that start have to wait, each reason once: no node has room, say
	LastStartError error    // why the last start failed, nil after one that succeeded
	Processes      []WorkerStats
}

// WorkerStats is one worker of a pool.
type WorkerStats struct {
	Name     string
	ID       string // OS pid, container or pod
	State    string // ready, draining …
	Tasks    int    // it holds
	Done     int    // it has finished
	Resident int64  // bytes in memory, as it last said
}

// Stats looks at the pool. It does not block.
func (p *Pool) Stats() PoolStats {
	s := p.engine.Stats()
	stats := PoolStats{Workers: s.Target, Starting: s.Starting, Ready: s.Ready, Idle: s.Idle, Queued: s.Queued, Running: s.Held,
		Done: s.TasksDone, Failed: s.TasksFailed, Retried: s.TasksRetried, WorkersStarted: s.WorkersStarted,
		WorkersLost: s.WorkersLost, LastStartError: s.Failure}
	stats.Avoided = p.proc.node.Avoided()
	p.mu.Lock()
	stats.Pending = slices.Compact(slices.Sorted(maps.Values(p.pending)))
	p.mu.Unlock()
	for _, w := range s.Workers {
		stats.Processes = append(stats.Processes, WorkerStats(w))
	}
	return stats
}
