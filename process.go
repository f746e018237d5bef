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

// Process is a process that runs one function. Its methods may be called from
// many goroutines. The states are new, started and ended, in that order.
type Process struct {
	name      string
	fn        string
	value     [][]byte
	arg       any // whose shared values are to stay until it has ended
	ends      departing
	err       error // of its making
	resources meta.Resources

	mu       sync.Mutex
	started  bool   // or about to be
	abandon  func() // ends the start that is under way, nil when none is
	unwanted bool   // abandon was called
	child    *tree.Child

	// of this process and its parent, which are not children
	pid   int
	alive func() bool
	done  <-chan struct{}
}

// ProcessOption is an option of NewProcess.
type ProcessOption interface{ applyProcess(*Process) error }

type processOption func(*Process) error

func (f processOption) applyProcess(p *Process) error { return f(p) }

// ProcessName names a process. Defaults to Process-1, Process-2 and so on.
func ProcessName(name string) ProcessOption {
	return processOption(func(p *Process) error {
		if strings.TrimSpace(name) == "" {
			return errors.New("fiber: ProcessName: the name is empty")
		}
		p.name = name
		return nil
	})
}

// ProcessMeta gives a process resources other than its function's.
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

// NewProcess makes a process that will run a function on an argument. It does
// not start it. A mistake in the arguments is Start's error.
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

// ErrStarted is what starting a process twice gives.
var ErrStarted = errors.New("fiber: the process was started before; make another one with fiber.NewProcess")

// ErrNotStarted is what waiting for a process gives that was never started.
var ErrNotStarted = errors.New("fiber: the process was not started")

// Start starts the process and returns when it has taken its work on. The
// error is a *LaunchError, a *MismatchError, ErrNotInitialized, ErrStarted or
// the ctx's; after it nothing is left behind, except that a pod on a node that
// does not answer is removed meanwhile. ctx bounds the start alone.
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
	if p.unwanted { // just too late to end the start
		return child.Kill("")
	}
	return nil
}

// abandoned ends a start that is under way.
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

// Join waits until the process has ended, or ctx ends. It returns nil when
// its function returned nil, a *RemoteError when it failed, and an *ExitError
// when the process ended otherwise. It may be called any number of times.
//
// Of the parent it returns nil at its end; a process cannot wait for itself.
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

// Terminate asks the process to end: its function's context is cancelled, and
// a second later it ends anyway. It does not wait. A process that was not
// started, or has ended, is left alone; one that is being started is not
// started after all, and Start gives context.Canceled.
func (p *Process) Terminate() error {
	if p.abandoned() {
		return nil
	}
	if child := p.running(); child != nil {
		return child.Terminate()
	}
	return nil
}

// Kill ends the process at once, or its start; see Terminate. It does not
// wait.
func (p *Process) Kill() error {
	if p.abandoned() {
		return nil
	}
	if child := p.running(); child != nil {
		return child.Kill("")
	}
	return nil
}

// Alive says whether the process was started and has not ended.
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

// ExitCode is the process's exit code, 128+n when signal n ended it; exited
// is false while there is none.
func (p *Process) ExitCode() (code int, exited bool) {
	child := p.running()
	if child == nil || p.Alive() {
		return 0, false
	}
	return child.Exit().Code, true
}

// ID names the process where it runs: its OS pid, container or pod; "" before
// it is started.
func (p *Process) ID() string {
	if p.pid != 0 {
		return strconv.Itoa(p.pid)
	}
	if child := p.running(); child != nil {
		return child.Job().ID()
	}
	return ""
}

// PID is the process's id in its operating system, 0 before it is started.
func (p *Process) PID() int {
	if p.pid != 0 {
		return p.pid
	}
	if child := p.running(); child != nil {
		return child.PID()
	}
	return 0
}

// Name is the process's name.
func (p *Process) Name() string { return p.name }

// Done is closed when the process has ended. Before Start it is nil, on which
// nothing is ever received.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Logs reads what the process has written to its stdout and stderr, as far as
// it is kept (256 KiB on the local backend), and what it writes until it ends
// or ctx does.
func (p *Process) Logs(ctx context.Context) (io.ReadCloser, error) {
	child := p.running()
	if child == nil {
		return nil, ErrNotStarted
	}
	return child.Logs(ctx)
}

// ActiveChildren lists the processes that this one has started and that have
// not ended, the workers of pools included.
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

// CurrentProcess is this process.
func CurrentProcess() *Process {
	return &Process{name: processName(), started: true, pid: os.Getpid(), alive: func() bool { return true }}
}

// ParentProcess is the process that started this one, nil in the program's
// first.
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

// CPUCount is the number of CPUs that this process may use.
func CPUCount() int { return runtime.NumCPU() }
