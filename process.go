package fiber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
)

// Process is a process that runs one function. It is new, started, or ended, in
// that order. Its methods may be called from many goroutines.
type Process struct {
	spec tree.Spec
	ends departing
	err  error // a mistake in the arguments of NewProcess

	mu       sync.Mutex
	late     func(context.Context) ([][]byte, parcel, error) // encodes the argument, if that was not possible at once
	started  bool                                            // or about to start
	abandon  func()                                          // ends the start that is under way; nil if none is
	unwanted bool                                            // abandon was called
	child    *tree.Child

	// Of this process and its parent, which have no child.
	pid  int
	done <-chan struct{} // closed at its end; nil before the start, and of this process
}

var processes atomic.Int64

// nextProcess returns the name of the next process.
func nextProcess() string {
	p, _ := running()
	return numbered(p, "Process", &processes)
}

// numbered returns a name with the next number of a count. In a process that has a parent, the process's place in the tree
// precedes the number: no two processes of a run have the same name.
func numbered(p *process, name string, count *atomic.Int64) string {
	place := ""
	if p != nil {
		place = strings.ReplaceAll(strings.TrimPrefix(p.node.Place+"/", "/"), "/", ".")
	}
	return fmt.Sprintf("%s-%s%d", name, place, count.Add(1))
}

// NewProcess makes a process that will run a function with an argument. Start
// starts it, and reports mistakes in NewProcess's arguments.
func NewProcess[In, Out any](fn *Func[In, Out], arg In, opts ...ProcessOption) *Process {
	p := &Process{spec: tree.Spec{Name: nextProcess()}}
	if p.err = fn.usable(); p.err != nil {
		return p
	}
	p.spec.Assign, p.spec.Resources = wire.Assign{Role: wire.RoleFunction, Func: fn.Name()}, fn.Resources()
	value, names, err := marshalNow([]In{arg})
	if errors.As(err, new(*comingError)) {
		p.late = func(ctx context.Context) ([][]byte, parcel, error) { return marshalHere(ctx, []In{arg}) }
	} else if err != nil {
		p.err = errorf("fiber: the argument of %s: %w", fn.Name(), oneValue(err))
		return p
	}
	p.spec.Value, p.spec.Keep, p.ends = value, arg, names.ends
	p.err = configured("NewProcess", &p.spec, opts, ProcessOption.process)
	return p
}

// ErrStarted is returned when a process is started a second time.
var ErrStarted = errors.New("fiber: the process was started before; create another one with fiber.NewProcess")

// ErrNotStarted is returned by Join and Logs when the process was not started.
var ErrNotStarted = errors.New("fiber: the process was not started")

// Start starts the process and returns when it has taken on its work. ctx
// limits the start alone. The error is a *LaunchError, a *MismatchError,
// ErrNotInitialized, ErrStarted or ctx.Err(). A failed start leaves nothing
// behind, except that a removal which takes longer than a second goes on in the
// background.
func (p *Process) Start(ctx context.Context) error {
	if p.empty() {
		return errEmpty("Process")
	}
	if p.err != nil {
		return p.err
	}
	proc, err := running()
	if err == nil && ctx == nil {
		err = errNilContext
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := p.encode(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	if p.started {
		p.mu.Unlock()
		return ErrStarted
	}
	spec := p.spec
	if err = proc.fits(spec.Value); err == nil {
		err = p.ends.depart()
	}
	if err != nil {
		p.mu.Unlock()
		return errorf("fiber: the argument of %s: %w", spec.Assign.Func, err)
	}
	p.started, p.abandon, p.unwanted = true, cancel, false
	p.mu.Unlock()
	child, err := proc.node.Start(ctx, spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandon = nil
	if err != nil {
		p.started = false
		return exported(err)
	}
	p.ends.gone(child.Done())
	p.child, p.done = child, child.Done()
	p.spec.Value, p.spec.Keep, p.ends = nil, nil, nil
	if p.unwanted { // too late to end the start
		return child.Kill("")
	}
	return nil
}

// encode encodes the argument if NewProcess could not.
func (p *Process) encode(ctx context.Context) error {
	p.mu.Lock()
	late := p.late
	p.mu.Unlock()
	if late == nil {
		return nil
	}
	value, names, err := late(ctx)
	if err != nil {
		return errorf("fiber: the argument of %s: %w", p.spec.Assign.Func, oneValue(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spec.Value, p.ends, p.late = value, names.ends, nil
	return nil
}

// empty says whether the process is nil or a zero value.
func (p *Process) empty() bool { return p == nil || p.spec.Name == "" }

func (p *Process) running() *tree.Child {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// Join waits until the process has ended, or ctx ends. It returns nil when the
// function returned nil, a *RemoteError when the function failed, and an
// *ExitError when the process ended otherwise, be it by os.Exit(0), or was told to
// end by Terminate, Kill or a signal, whatever its function returned then. It may be
// called any number of times.
//
// Join on the parent returns nil when the parent has ended. A process cannot
// wait for itself.
func (p *Process) Join(ctx context.Context) error {
	child := p.running()
	switch {
	case p.empty():
		return errEmpty("Process")
	case p.pid != 0 && p.done == nil:
		return errors.New("fiber: a process cannot wait for itself")
	case p.pid == 0 && child == nil:
		return ErrNotStarted
	case ctx == nil:
		return errNilContext
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if child == nil { // the parent
		return nil
	}
	exit := child.Exit()
	switch {
	case exit.Returned && exit.Err != nil && exit.Signal == 0:
		return unflatten(exit.Err)
	case exit.Returned && exit.Err == nil && exit.Code == 0:
		return nil
	}
	return exitError(child)
}

// Terminate asks the process to end and does not wait: its function's context
// is cancelled, and after half of shutdown_grace (1 s) the process ends anyway. Join
// then returns an *ExitError.
// While the process is being started, Terminate ends the start, and Start
// returns context.Canceled. On a process that was not started, or has ended,
// Terminate is a no-op.
func (p *Process) Terminate() error { return p.end((*tree.Child).Terminate) }

// Kill ends the process at once, or its start; see Terminate. It does not wait.
func (p *Process) Kill() error {
	return p.end(func(child *tree.Child) error { return child.Kill("") })
}

// end ends a start that is under way, or else calls how for a process that was
// started.
func (p *Process) end(how func(*tree.Child) error) error {
	if p.empty() {
		return errEmpty("Process")
	}
	p.mu.Lock()
	abandon, child := p.abandon, p.child
	p.unwanted = abandon != nil
	p.mu.Unlock()
	switch {
	case abandon != nil:
		abandon()
	case child != nil:
		return how(child)
	}
	return nil
}

// Alive reports whether the process was started and has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.Done():
		return false
	default:
		return p != nil && (p.pid != 0 || p.running() != nil)
	}
}

// ExitCode returns the process's exit code, 128+n when signal n ended it.
// exited is false until the process has ended.
func (p *Process) ExitCode() (code int, exited bool) {
	child := p.running()
	if child == nil || p.Alive() {
		return 0, false
	}
	return child.Exit().Code, true
}

// ID names the process where it runs, by its OS pid, container or pod. It is ""
// before the start.
func (p *Process) ID() string {
	if p != nil && p.pid != 0 {
		return strconv.Itoa(p.pid)
	}
	if child := p.running(); child != nil {
		return child.Job().ID()
	}
	return ""
}

// PID returns the process's id in its operating system, 0 before the start.
func (p *Process) PID() int {
	if p != nil && p.pid != 0 {
		return p.pid
	}
	if child := p.running(); child != nil {
		return child.PID()
	}
	return 0
}

// Name returns the process's name.
func (p *Process) Name() string {
	if p == nil {
		return ""
	}
	return p.spec.Name
}

// Done returns a channel that is closed when the process has ended. Before
// Start it returns nil.
func (p *Process) Done() <-chan struct{} {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Logs reads what the process has written to its stdout and stderr, as far as
// it is kept (256 KiB on the local backend), and goes on until the process or
// ctx ends.
func (p *Process) Logs(ctx context.Context) (io.ReadCloser, error) {
	child := p.running()
	switch {
	case p.empty():
		return nil, errEmpty("Process")
	case child == nil:
		return nil, ErrNotStarted
	case ctx == nil:
		return nil, errNilContext
	}
	return child.Logs(ctx)
}

// ActiveChildren returns the running processes that this one has started,
// workers of pools included.
func ActiveChildren() []*Process {
	proc := here()
	if proc == nil {
		return nil
	}
	var children []*Process
	for _, c := range proc.node.Children() {
		children = append(children, &Process{spec: tree.Spec{Name: c.Name()}, started: true, child: c, done: c.Done()})
	}
	return children
}

// CurrentProcess returns this process.
func CurrentProcess() *Process {
	return &Process{spec: tree.Spec{Name: processName()}, started: true, pid: self.Of().PID}
}

// ParentProcess returns the process that started this one, nil in the root.
func ParentProcess() *Process {
	proc := here()
	if proc == nil || proc.node.Parent == nil {
		return nil
	}
	parent := proc.node.Parent
	return &Process{spec: tree.Spec{Name: parent.Assign.ParentName}, started: true, pid: parent.Assign.ParentPID, done: parent.Done()}
}

// CPUCount returns the number of CPUs that this process may use, which is
// runtime.GOMAXPROCS: it heeds the variable of this name, affinity and CPU quotas.
func CPUCount() int { return runtime.GOMAXPROCS(0) }
