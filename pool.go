package fiber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// defaultIdle is how long a worker of an autoscaled pool may be idle.
const defaultIdle = 30 * time.Second

// defaultAttempts is how often a task runs whose workers are lost.
const defaultAttempts = 3

// Pool is a number of worker processes that run functions. Its methods, and the
// calls that use it, are safe for concurrent use. Calls share the workers
// fairly.
//
// The workers start when the first function is run, and one that is up is
// enough to make progress. A worker that is lost is replaced, and its tasks run
// again elsewhere.
//
// When several workers are idle, a task runs on one that has made or fetched the shared
// values in its argument, or most of the first eight; it never waits for a busy one.
// Values in maps, and in types that encode themselves, do not count. A pool in another
// process than the program's main one knows only of what that process has shared.
//
// The workers have the resources of WithMeta, or else those of the first
// function run that was registered with any. Workers that started before that
// function finish their tasks and are replaced. Functions without resources run
// in every pool. Functions whose resources differ from the pool's are rejected.
type Pool struct {
	engine *engine.Engine
	proc   *process
	opts   poolOptions
	serial *atomic.Int64 // number of the last worker, shared by all pools of the name
	sole   string        // the name of the only process, of Go's, which has the resources that it was given

	mu        sync.Mutex
	resources *meta.Resources   // nil until a function with resources comes
	adopted   string            // the function they come from, "" for WithMeta
	pending   map[string]string // why starting workers have to wait, by their names
}

type poolOptions struct {
	engine.Options
	name      string
	setups    []setup
	resources meta.Resources
}

func atLeastOne(option string, n int, field func(*poolOptions) *int) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if n < 1 {
			return fmt.Errorf("fiber: %s(%d): the number must be at least 1", option, n)
		}
		*field(o) = n
		return nil
	})
}

// WithInitializer runs fn once in each worker, before the worker's first task.
// A worker whose initializer fails does not start. When no worker can start,
// the pool's calls fail with the reason.
func WithInitializer[In, Out any](fn *Func[In, Out], arg In) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if err := fn.usable(); err != nil {
			return errorf("fiber: WithInitializer: %w", err)
		}
		return o.setUp(registry.Function, fn.entry, "the initializer", func() ([][]byte, parcel, error) { return marshalNow([]In{arg}) })
	})
}

// WithMaxTasksPerChild replaces a worker process when it has run n tasks.
func WithMaxTasksPerChild(n int) PoolOption {
	return atLeastOne("WithMaxTasksPerChild", n, func(o *poolOptions) *int { return &o.MaxTasks })
}

// WithAutoscale starts min workers, which may be 0, and more while work waits,
// up to max. Workers beyond min end when they have been idle for 30 seconds, or
// for WithIdleTimeout. The number of workers given to NewPool is ignored.
func WithAutoscale(min, max int) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if min < 0 || max < 1 || max < min {
			return fmt.Errorf("fiber: WithAutoscale(%d, %d): want 0 <= min <= max and max >= 1", min, max)
		}
		o.Min, o.Max = min, max
		return nil
	})
}

// WithIdleTimeout sets how long a worker of an autoscaled pool may be idle. The
// default is 30 seconds.
func WithIdleTimeout(d time.Duration) PoolOption {
	return poolOption(func(o *poolOptions) error {
		if d <= 0 {
			return fmt.Errorf("fiber: WithIdleTimeout(%v): the time must be more than 0", d)
		}
		o.IdleTimeout = d
		return nil
	})
}

// WithMaxAttempts sets how often a task is started in all when the workers that
// run it are lost. The default is 3. With 1, a task that was started never runs
// again, for functions that must not run twice.
//
// With more, the loss of a worker counts as an attempt of its task if it had only
// one. If it had several, any of them may have ended it: the loss then counts for
// none, and each runs alone from then on. So no task fails for what another does,
// and a task may be started n+1 times. The end of a worker that was told to end from
// outside, by its machine say, never counts.
func WithMaxAttempts(n int) PoolOption {
	return atLeastOne("WithMaxAttempts", n, func(o *poolOptions) *int { return &o.MaxAttempts })
}

// WithConcurrency lets each worker run n tasks at a time. The default is 1.
func WithConcurrency(n int) PoolOption {
	return atLeastOne("WithConcurrency", n, func(o *poolOptions) *int { return &o.Concurrency })
}

// NewPool makes a pool with a number of workers; 0 means CPUCount of them. No
// worker starts yet. Close the pool when it is no longer needed.
func NewPool(workers int, opts ...PoolOption) (*Pool, error) { return newPool("", workers, opts) }

// newPool makes a pool, or for Go one of a single process with a name.
func newPool(sole string, workers int, opts []PoolOption) (*Pool, error) {
	proc, err := running()
	if err != nil {
		return nil, err
	}
	if workers < 0 {
		return nil, fmt.Errorf("fiber: NewPool(%d): the number of workers cannot be negative; 0 means one per CPU", workers)
	}
	if workers == 0 {
		workers = CPUCount()
	}
	p := &Pool{proc: proc, sole: sole, pending: map[string]string{}}
	p.opts.Options = engine.Options{Start: p.start, WhenHeld: proc.objects.WhenHeld, Ending: proc.node.Ending(), Log: proc.node.Log, Events: proc.node.Events, Name: p.workerName,
		Workers: workers, Concurrency: 1, MaxAttempts: defaultAttempts, IdleTimeout: defaultIdle,
		CancelGrace: proc.node.Config.CancelGrace, ShutdownGrace: proc.node.Config.ShutdownGrace}
	if err := configured("NewPool", &p.opts, opts, PoolOption.pool); err != nil {
		return nil, err
	}
	for _, s := range p.opts.setups {
		if err := proc.fits(s.arg); err != nil {
			return nil, errorf("fiber: the argument of %s: %w", s.what, err)
		}
	}
	if p.opts.Max > 0 {
		p.opts.Workers = p.opts.Min
	}
	if sole != "" {
		p.opts.ShutdownGrace = p.opts.CancelGrace
	}
	if !p.opts.resources.IsZero() {
		p.resources = &p.opts.resources
	}
	label := cmp.Or(sole, p.opts.name)
	if label == "" {
		label = fmt.Sprintf("Pool%d", pools.Add(1))
		p.opts.name, p.serial = label+"Worker", new(atomic.Int64)
	} else {
		p.serial = serials.of(p.opts.name)
	}
	p.opts.Label = label
	p.opts.Closed = closedError("the pool %s was closed", label)
	p.engine = engine.New(p.opts.Options)
	proc.pools.get(made.Add(1), func() *Pool { return p })
	return p, nil
}

var (
	made    atomic.Uint64 // how many pools there were
	pools   atomic.Int64  // how many of them without a name
	serials serialNumbers
)

// serialNumbers counts the workers that the pools of a name have had. Of the names
// that a program makes up, the first maxSerials have a counter each, and all others
// share one.
type serialNumbers struct {
	mu     sync.Mutex
	byName map[string]*atomic.Int64
	others atomic.Int64
}

const maxSerials = 1000

// of returns the counter of a name.
func (s *serialNumbers) of(name string) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.byName[name]; n != nil {
		return n
	}
	if len(s.byName) == maxSerials {
		return &s.others
	}
	if s.byName == nil {
		s.byName = map[string]*atomic.Int64{}
	}
	n := new(atomic.Int64)
	s.byName[name] = n
	return n
}

// workerName returns the next worker's name.
func (p *Pool) workerName() string {
	if p.sole != "" {
		return p.sole
	}
	return numbered(p.proc, p.opts.name, p.serial)
}

// start starts one worker for the engine.
func (p *Pool) start(ctx context.Context, name string, r engine.Reader) (engine.Process, error) {
	p.mu.Lock()
	var resources meta.Resources
	if p.resources != nil {
		resources = *p.resources
	}
	p.mu.Unlock()
	spec := tree.Spec{Name: name, Resources: resources, Handle: r.Handle, Handled: r.Handled, Idle: r.Idle,
		Assign:  wire.Assign{Role: wire.RoleWorker, Concurrency: p.opts.Concurrency, Pool: p.opts.Label},
		Pending: func(reason string) { p.waits(name, reason) }}
	for _, s := range p.opts.setups {
		spec.Assign.Setups = append(spec.Assign.Setups, wire.Setup{Kind: string(s.kind), Func: s.entry.Name, Frames: len(s.arg)})
		spec.Value = append(spec.Value, s.arg...)
	}
	child, err := p.proc.node.Start(ctx, spec)
	if err != nil {
		return nil, startError(exported(err))
	}
	return poolWorker{child}, nil
}

// waits notes why a starting worker has to wait; "" means that it does not.
func (p *Pool) waits(worker, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reason == "" {
		delete(p.pending, worker)
		return
	}
	p.pending[worker] = reason
}

// startError tells the engine what follows from the error of a start.
func startError(err error) error {
	var mismatch *MismatchError
	var failed *LaunchError
	ending := errors.Is(err, tree.ErrShutdown)
	return &engine.StartError{Err: err, Ending: ending, Permanent: ending || errors.As(err, &mismatch) ||
		errors.As(err, &failed) && failed.Permanent}
}

// poolWorker is a worker's process as the engine sees it.
type poolWorker struct{ *tree.Child }

func (w poolWorker) ID() string { return w.Job().ID() }

func (w poolWorker) Lost(fn string, attempts int) error {
	if attempts > 0 {
		return workerLost(w.Child, fn, attempts, attempts)
	}
	if w.Told() {
		return startError(tree.ErrShutdown)
	}
	return notReady(w.Child, "its initializer failed")
}

// admit checks that the pool can run a function. It adopts the resources of the
// first one that has any; workers without them are then replaced.
func (p *Pool) admit(f *registry.Func) error {
	if f.Resources.IsZero() || p.sole != "" {
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

// WaitUntilWorkersUp starts the workers and waits until all are ready.
func (p *Pool) WaitUntilWorkersUp(ctx context.Context) error {
	switch {
	case !p.made():
		return errEmpty("Pool")
	case ctx == nil:
		return errNilContext
	}
	return p.engine.Up(ctx)
}

// Resize changes the number of workers and waits until new workers are ready
// and surplus ones have finished their tasks and ended. If the pool has not
// started yet, Resize returns at once.
func (p *Pool) Resize(ctx context.Context, workers int) error {
	switch {
	case !p.made():
		return errEmpty("Pool")
	case workers < 1:
		return fmt.Errorf("fiber: Resize(%d): the number must be at least 1", workers)
	case ctx == nil:
		return errNilContext
	}
	return p.engine.Resize(ctx, workers)
}

// Close refuses new work, waits until the pool has finished the work it has,
// ends the workers, and returns when they have gone. It may be called from
// anywhere, any number of times. Once the processes that this one has started
// are asked to end, by Shutdown or as Main says after a signal, Close becomes
// Terminate.
//
// An IMap that has not read all of its input reads no more of it. Its running
// tasks finish, tasks that have not begun do not run, and its loop ends with
// ErrClosed.
func (p *Pool) Close() {
	if p.made() {
		p.engine.Close()
	}
}

// Shutdown is Close until ctx ends. Then it fails the calls that are left with
// ErrClosed, kills the workers, and returns when they have gone, with an error that
// says how many tasks were given up and is ctx.Err(), or ErrShutdown if this process
// ends before that, or ErrClosed if Terminate or another Shutdown gave them up. It
// returns nil when all work was finished.
func (p *Pool) Shutdown(ctx context.Context) error {
	switch {
	case !p.made():
		return errEmpty("Pool")
	case ctx == nil:
		return errNilContext
	}
	tasks, err := p.engine.Shutdown(ctx)
	if err == engine.ErrEnding {
		err = ErrShutdown
	}
	if err != nil {
		return fmt.Errorf("fiber: the pool's work was not finished, and %d tasks were given up: %w", tasks, err)
	}
	return nil
}

// Terminate fails all calls with ErrClosed, asks the workers to end, kills those
// that are left after shutdown_grace, and returns when they have gone.
func (p *Pool) Terminate() {
	if p.made() {
		p.engine.Terminate()
	}
}

// made says whether the pool was made by NewPool.
func (p *Pool) made() bool { return p != nil && p.engine != nil }

// PoolStats says what a pool is doing and has done.
type PoolStats struct {
	Workers  int // wanted
	Starting int // those on their way
	Ready    int // those that are up
	Idle     int // of the ready ones
	Queued   int // tasks that no worker holds
	Running  int // tasks that workers hold

	Done           int // tasks that returned
	Failed         int // tasks that ended with an error
	Retried        int // how often tasks that ran, or may have run, were started again: their workers were lost, or see Retries
	WorkersStarted int // those that became ready
	WorkersLost    int // those that ended without being told to
	WorkersKilled  int // those whose function went on for cancel_grace after its context had ended

	Avoided        []string      // nodes of a cluster that new processes avoid for a while, since workers were lost or did not start there
	Pending        []string      // why starting workers have to wait, each reason once: no node has room, for example
	LastStartError error         // why the last start failed; nil if it succeeded
	Processes      []WorkerStats // the workers, one by one
}

// WorkerStats describes one worker of a pool.
type WorkerStats struct {
	Name     string // the process's name
	ID       string // OS pid, container or pod
	State    string // ready, draining …
	Tasks    int    // that it holds
	Done     int    // that it has finished
	Resident int64  // bytes in memory that it does not share, as last reported
	Shared   int64  // bytes of shared values, as last reported, every two seconds: of its machine that it sees, and that it has fetched

	Running []RunningTask // that it runs now
}

// RunningTask is a task that a worker runs. Tasks of less than a millisecond or so are
// reported together: the worker runs one of them after another.
type RunningTask struct {
	Func     string    // the function's name
	Index    int       // of the input in its call, from 0; of the first of several
	Tasks    int       // 1, or how many are left that are reported together
	Since    time.Time // when it began, or the last of those before it ended, as heard of here
	Unwanted bool      // it was cancelled, or its time is up
}

// Stats describes the pool at this moment. It does not block.
func (p *Pool) Stats() PoolStats {
	if !p.made() {
		return PoolStats{}
	}
	s := p.engine.Stats()
	stats := PoolStats{Workers: s.Target, Starting: s.Starting, Ready: s.Ready, Idle: s.Idle, Queued: s.Queued, Running: s.Held,
		Done: s.TasksDone, Failed: s.TasksFailed, Retried: s.TasksRetried, WorkersStarted: s.WorkersStarted,
		WorkersLost: s.WorkersLost, WorkersKilled: s.WorkersKilled, LastStartError: s.Failure}
	stats.Avoided = p.proc.node.Avoided()
	p.mu.Lock()
	stats.Pending = slices.Compact(slices.Sorted(maps.Values(p.pending)))
	p.mu.Unlock()
	for _, w := range s.Workers {
		stats.Processes = append(stats.Processes, WorkerStats{Name: w.Name, ID: w.ID, State: w.State, Tasks: w.Tasks, Done: w.Done, Resident: w.Memory.Resident, Shared: w.Memory.Shared})
		for _, task := range w.Running {
			last := &stats.Processes[len(stats.Processes)-1]
			last.Running = append(last.Running, RunningTask(task))
		}
	}
	return stats
}
