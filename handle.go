package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
	"github.com/fiber-go/fiber/internal/object/queue"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/transport"
)

// handle is this process's use of an object of the run: what queues, pipes and
// proxies have in common. The object lives as long as a handle is reachable
// somewhere. A copy of the value that has it shares it.
type handle struct {
	proc *process
	ref  object.Ref
}

// attach holds an object.
func (p *process) attach(ref object.Ref) *handle {
	p.home.Hold(ref)
	h := &handle{p, ref}
	runtime.AddCleanup(h, func(ref object.Ref) { p.home.Release(ref) }, ref)
	return h
}

// constructors are those whose name is not New and that of the type.
var constructors = map[string]string{
	"CyclicBarrier": "NewBarrier",
	"Proxy":         "New",
	"Shared":        "Share",
	"pipe end":      "Pipe or PipeOneWay",
	"queue":         "NewSimpleQueue, NewQueue or NewJoinableQueue",
}

// errEmpty is the error of using a zero value, or nil, of a type.
func errEmpty(typ string) error {
	constructor := constructors[typ]
	if constructor == "" {
		constructor = "New" + typ
	}
	return fmt.Errorf("fiber: use of an uninitialised %s; create it with %s", typ, constructor)
}

// user is what uses an object: a queue, a dict and so on.
type user interface {
	// used returns the handle, nil for a zero value, and what the object is
	// called in errors and in Go.
	used() (h *handle, name, typ string)
}

// ask sends a request that may be answered late, and waits as long as ctx lasts;
// an answer that comes nevertheless is given to late, unless that is nil.
func ask[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q, late func(A)) (a A, err error) {
	h, name, typ := u.used()
	if h == nil {
		return a, errEmpty(typ)
	}
	a, err = object.Ask(ctx, h.proc.home, h.ref, op, q, late)
	runtime.KeepAlive(u)
	runtime.KeepAlive(q) // what it names is held by the object, if it keeps it, when it has answered
	return a, objectError("the "+name, err)
}

// settle sends a request that is answered at once. When ctx ends on the way it
// waits for another moment, to know whether it was done.
func settle[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q) (a A, err error) {
	h, name, typ := u.used()
	if h == nil {
		return a, errEmpty(typ)
	}
	a, err = object.AskAndSettle(ctx, h.proc.home, h.ref, op, q)
	runtime.KeepAlive(u)
	runtime.KeepAlive(q) // as in ask
	return a, objectError("the "+name, err)
}

// do is settle for an answer that says nothing.
func do[Q any](ctx context.Context, u user, op object.Op[Q, object.None], q Q) error {
	_, err := settle(ctx, u, op, q)
	return err
}

// tell sends a request that has no answer.
func tell[Q, A any](u user, op object.Op[Q, A], q Q) error {
	h, name, _ := u.used()
	err := object.Tell(context.Background(), h.proc.home, h.ref, op, q)
	runtime.KeepAlive(u)
	return objectError("the "+name, err)
}

// objectError is an error of a home, or of an object there, as a user sees it.
func objectError(what string, err error) error {
	var refusal *object.Refusal
	var lost *object.LostError
	var size *transport.SizeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, object.ErrGone), errors.Is(err, object.ErrEnded):
		return errorf("fiber: %s has ended: %w", what, ErrClosed)
	case errors.Is(err, tree.ErrShutdown):
		return err
	case errors.As(err, &lost):
		return lostError(what, lost)
	case errors.As(err, &size):
		return fmt.Errorf("fiber: %s: %w; %s", what, size, whatToDo)
	case errors.As(err, &refusal):
		return refused(what, refusal)
	}
	return fromEngine(err)
}

// refused is what an object has refused.
func refused(what string, r *object.Refusal) error {
	switch r.Code {
	case object.Unknown:
		return &MismatchError{Reason: r.Text}
	case object.TooLarge:
		return fmt.Errorf("fiber: what %s has: %s; %s", what, r.Text, whatToDo)
	case custom.Failed:
		return unflatten(custom.Failure(r.Text))
	case queue.Closed:
		return errorf("fiber: %s: %w", what, ErrClosed)
	case queue.TooOften:
		return errors.New("fiber: TaskDone was called more often than there were items; call it once for each item that Get gave")
	case builtin.OutOfRange:
		return fmt.Errorf("fiber: %s: %s", what, r.Text)
	case builtin.NotHeld:
		return fmt.Errorf("fiber: %s is not held here: %s", what, r.Text)
	case builtin.TooOften:
		return fmt.Errorf("fiber: %s has all its permits; call Release once for each Acquire", what)
	case builtin.Broken:
		return fmt.Errorf("fiber: %w: %s", ErrBrokenBarrier, r.Text)
	}
	return r
}

// marshal gives the name of the handle's object, with more behind it.
func (h *handle) marshal(more ...byte) ([]byte, error) {
	name, err := h.ref.MarshalBinary()
	return append(name, more...), err
}

// unmarshalHandle attaches to the object whose name marshal gave.
func unmarshalHandle(b []byte) (h *handle, more []byte, err error) {
	var ref object.Ref
	if more, err = ref.Read(b); err != nil {
		return nil, nil, err
	}
	p, err := running()
	if err != nil {
		return nil, nil, err
	}
	return p.attach(ref), more, nil
}

// lostError is a home that was lost, with what its process's end tells, which
// the process that started it waits for.
func lostError(what string, lost *object.LostError) error {
	e := &WorkerLostError{Worker: lost.Ref.Process, ExitCode: -1,
		Reason: fmt.Sprintf("the process in which %s lived cannot be reached any more: %v", what, lost.Err)}
	if lost.Ref.PID > 0 {
		e.ID = strconv.Itoa(lost.Ref.PID)
	}
	proc := current.Load()
	if proc == nil {
		return e
	}
	child, ok := proc.homes.Load(lost.Ref.Endpoint)
	if !ok {
		return e
	}
	c := child.(*tree.Child)
	select {
	case <-c.Done():
	case <-time.After(exitWait):
		return e
	}
	exit := c.Exit()
	e.ID, e.Host, e.ExitCode, e.OOM, e.Stderr = c.Job().ID(), c.Job().Host(), exit.Code, exit.OOMKilled, exit.Stderr
	if exit.Signal != 0 {
		e.Signal = exit.Signal.String()
	}
	e.Reason = exit.Reason
	return e
}

// exitWait bounds the wait for a lost process's exit status.
const exitWait = 5 * time.Second
