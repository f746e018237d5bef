package fiber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// Process is a process that runs one function. It is new, started, or ended, in
// that order. Its methods may be called from many goroutines.
type Process struct {
	name      string
	fn        string
	value     [][]byte
	arg       any // keeps its shared values until the process has ended
	ends      departing
	err       error // a mistake in the arguments of NewProcess
	resources meta.Resources

	mu       sync.Mutex
	started  bool   // or about to start
	abandon  func() // ends the start that is under way; nil if none is
	unwanted bool   // abandon was called
	child    *tree.Child

	// Of this process and its parent, which have no child.
	pid   int
	alive func() bool
	done  <-chan struct{}
}

// ProcessOption configures NewProcess.
type ProcessOption interface{ applyProcess(*Process) error }

type processOption func(*Process) error

func (f processOption) applyProcess(p *Process) error { return f(p) }

// ProcessName names a process. The default is Process-1, Process-2 and so on.
func ProcessName(name string) ProcessOption {
	return processOption(func(p *Process) error {
		if strings.TrimSpace(name) == "" {
			return errors.New("fiber: ProcessName: the name is empty")
		}
		p.name = name
		return nil
	})
}

// ProcessMeta sets a process's resources, in place of its function's.
func ProcessMeta(m ...meta.Option) ProcessOption {
	return processOption(func(p *Process) error {
		r, err := meta.Collect(m...)
		if err != nil {
			return fmt.Errorf("fiber: ProcessMeta: %w", err)
		}
		p.resources = r
		return nil
	})
}

var processes atomic.Int64

// NewProcess makes a process that will run a function with an argument. Start
// starts it, and reports mistakes in NewProcess's arguments.
func NewProcess[In, Out any](fn *Func[In, Out], arg In, opts ...ProcessOption) *Process {
	p := &Process{name: fmt.Sprintf("Process-%d", processes.Add(1))}
	if fn == nil {
		p.err = errors.New("fiber: NewProcess: the function is nil; register it in a package variable with fiber.Register")
		return p
	}
	p.fn, p.resources = fn.Name(), fn.Resources()
	value, names, err := marshalHere([]In{arg})
	if err != nil {
		p.err = errorf("fiber: the argument of %s: %w", fn.Name(), oneValue(err))
		return p
	}
	p.value, p.arg, p.ends = value, arg, names.ends
	for _, o := range opts {
		if err := o.applyProcess(p); err != nil {
			p.err = err
			return p
		}
	}
	return p
}

// ErrStarted is returned when a process is started a second time.
var ErrStarted = errors.New("fiber: the process was started before; create another one with fiber.NewProcess")

// ErrNotStarted is returned by Join and Logs when the process was not started.
var ErrNotStarted = errors.New("fiber: the process was not started")

// Start starts the process and returns when it has taken on its work. ctx
// limits the start alone. The error is a *LaunchError, a *MismatchError,
// ErrNotInitialized, ErrStarted or ctx.Err(). A failed start leaves nothing
// behind, except that the removal of a pod from a node that does not answer
// goes on in the background.
func (p *Process) Start(ctx context.Context) error {
	if p.err != nil {
		return p.err
	}
	proc, err := running()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	if p.started {
		p.mu.Unlock()
		return ErrStarted
	}
	value, arg := p.value, p.arg
	if err := proc.fits(value); err != nil {
		p.mu.Unlock()
		return errorf("fiber: the argument of %s: %w", p.fn, err)
	}
	if err := p.ends.depart(); err != nil {
		p.mu.Unlock()
		return errorf("fiber: the argument of %s: %w", p.fn, err)
	}
	p.started, p.abandon, p.unwanted = true, cancel, false
	p.mu.Unlock()
	child, err := proc.node.Start(ctx, tree.Spec{Name: p.name, Resources: p.resources,
		Assign: wire.Assign{Role: wire.RoleFunction, Func: p.fn}, Value: value, Keep: arg})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandon = nil
	if err != nil {
		p.started = false
		p.ends.stay()
		return err
	}
	p.ends.gone(child.Done())
	p.child, p.done, p.value, p.arg = child, child.Done(), nil, nil
	p.ends = nil
	if p.unwanted { // too late to end the start
		return child.Kill("")
	}
	return nil
}

// abandoned ends a start that is under way, and reports whether one was.
func (p *Process) abandoned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandon == nil {
		return false
	}
	p.unwanted = true
	p.abandon()
	return true
}

func (p *Process) running() *tree.Child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// Join waits until the process has ended, or ctx ends. It returns nil when the
// function returned nil, a *RemoteError when the function failed, and an
// *ExitError when the process ended otherwise. It may be called any number of
// times.
//
// Join on the parent returns nil when the parent has ended. A process cannot
// wait for itself.
func (p *Process) Join(ctx context.Context) error {
	child := p.running()
	switch {
	case p.pid != 0 && p.done == nil:
		return errors.New("fiber: a process cannot wait for itself")
	case p.pid != 0:
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case child == nil:
		return ErrNotStarted
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	exit := child.Exit()
	switch {
	case exit.Returned && exit.Err != nil && exit.Signal == 0:
		return unflatten(exit.Err)
	case exit.Returned && exit.Err == nil && exit.Code == 0:
		return nil
	case exit.Code == 0 && exit.Signal == 0 && exit.Reason == "":
		return nil // the function called os.Exit(0)
	}
	e := &ExitError{Name: p.name, ID: child.Job().ID(), Code: exit.Code, OOM: exit.OOMKilled, Reason: exit.Reason, Stderr: exit.Stderr}
	if exit.Signal != 0 {
		e.Signal = exit.Signal.String()
	}
	return e
}

// Terminate asks the process to end and does not wait: its function's context
// is cancelled, and after half of shutdown_grace (1 s) the process ends anyway.
// While the process is being started, Terminate ends the start, and Start
// returns context.Canceled. On a process that was not started, or has ended,
// Terminate is a no-op.
func (p *Process) Terminate() error {
	if p.abandoned() {
		return nil
	}
	if child := p.running(); child != nil {
		return child.Terminate()
	}
	return nil
}

// Kill ends the process at once, or its start; see Terminate. It does not wait.
func (p *Process) Kill() error {
	if p.abandoned() {
		return nil
	}
	if child := p.running(); child != nil {
		return child.Kill("")
	}
	return nil
}

// Alive reports whether the process was started and has not ended.
func (p *Process) Alive() bool {
	if p.alive != nil {
		return p.alive()
	}
	child := p.running()
	if child == nil {
		return false
	}
	select {
	case <-child.Done():
		return false
	default:
		return true
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
	if p.pid != 0 {
		return strconv.Itoa(p.pid)
	}
	if child := p.running(); child != nil {
		return child.Job().ID()
	}
	return ""
}

// PID returns the process's id in its operating system, 0 before the start.
func (p *Process) PID() int {
	if p.pid != 0 {
		return p.pid
	}
	if child := p.running(); child != nil {
		return child.PID()
	}
	return 0
}

// Name returns the process's name.
func (p *Process) Name() string { return p.name }

// Done returns a channel that is closed when the process has ended. Before
// Start it returns nil.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Logs reads what the process has written to its stdout and stderr, as far as
// it is kept (256 KiB on the local backend), and goes on until the process or
// ctx ends.
func (p *Process) Logs(ctx context.Context) (io.ReadCloser, error) {
	child := p.running()
	if child == nil {
		return nil, ErrNotStarted
	}
	return child.Logs(ctx)
}

// ActiveChildren returns the running processes that this one has started,
// workers of pools included.
func ActiveChildren() []*Process {
	proc := current.Load()
	if proc == nil {
		return nil
	}
	var children []*Process
	for _, c := range proc.node.Children() {
		children = append(children, &Process{name: c.Name(), started: true, child: c, done: c.Done()})
	}
	return children
}

// CurrentProcess returns this process.
func CurrentProcess() *Process {
	return &Process{name: processName(), started: true, pid: os.Getpid(), alive: func() bool { return true }}
}

// ParentProcess returns the process that started this one, nil in the root.
func ParentProcess() *Process {
	proc := current.Load()
	if proc == nil || proc.node.Parent == nil {
		return nil
	}
	parent := proc.node.Parent
	return &Process{name: parent.Assign.ParentName, started: true, pid: parent.Assign.ParentPID, done: parent.Done(),
		alive: func() bool {
			select {
			case <-parent.Done():
				return false
			default:
				return true
			}
		}}
}

// CPUCount returns the number of CPUs that this process may use.
func CPUCount() int { return runtime.NumCPU() }
