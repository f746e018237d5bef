package fiber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/fiber-go/fiber/internal/garbage"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
	"github.com/fiber-go/fiber/internal/object/queue"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// handle is this process's hold on an object of the run. Queues, proxies and so
// on have one. The object lives as long as a handle is reachable in some
// process. All queues and proxies here that refer to an object share one.
type handle struct {
	proc *process
	ref  object.Ref
}

// attach returns the handle of an object.
func (p *process) attach(ref object.Ref) *handle {
	return p.handles.get(ref, func() *handle {
		p.objects.Hold(ref)
		h := &handle{p, ref}
		garbage.Then(h, p.objects.Release, ref)
		return h
	})
}

// inErrors has the nouns and constructors by which errors name the objects of a
// type, where they differ from the type's name in lower case and New with that name.
var inErrors = map[string]struct{ noun, constructor string }{
	"BoundedSemaphore": {noun: "semaphore"},
	"Barrier":          {noun: "barrier", constructor: "NewBarrier"},
	"Func":             {constructor: "Register, in a package variable"},
	"Future":           {constructor: "ApplyAsync, MapAsync, CallAsync or Go"},
	"ObjectMethod":     {constructor: "RegisterMethod, in a package variable"},
	"Neighbour":        {constructor: "RingNode.Left or RingNode.Right"},
	"Proxy":            {noun: "object", constructor: "NewObject"},
	"RLock":            {noun: "lock"},
	"RingFunc":         {constructor: "RegisterRing, in a package variable"},
	"RingNode":         {constructor: "NewRing, whose function receives one"},
	"Shared":           {noun: "shared value", constructor: "Share"},
	"State":            {constructor: "RegisterState, in a package variable"},
	"ObjectType":       {constructor: "RegisterType, in a package variable"},
	"pipe end":         {constructor: "Pipe or PipeOneWay"},
	"queue":            {constructor: "NewSimpleQueue, NewQueue or NewJoinableQueue"},
}

func nounOf(typ string) string { return cmp.Or(inErrors[typ].noun, strings.ToLower(typ)) }

// errEmpty is the error of using a zero value, or nil, of a type.
func errEmpty(typ string) error {
	constructor := cmp.Or(inErrors[typ].constructor, "New"+typ)
	return fmt.Errorf("fiber: use of an uninitialised %s; create it with %s", typ, constructor)
}

// ask sends a request and waits for the answer until ctx ends. An answer that
// comes after that is passed to late. If late is nil, ask waits a moment longer
// to learn whether the request was carried out.
func ask[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q, late func(A)) (A, error) {
	a, _, err := tryAsk(ctx, u, op, q, late)
	return a, err
}

// tryAsk is ask, and says whether the request was sent.
func tryAsk[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q, late func(A)) (a A, sent bool, err error) {
	h := used(u)
	switch {
	case h == nil:
		return a, false, errEmpty(typeOf(u))
	case ctx == nil:
		return a, false, errNilContext
	}
	a, sent, err = object.TryAsk(ctx, h.proc.objects, h.ref, op, q, late)
	runtime.KeepAlive(u)
	runtime.KeepAlive(q) // an object that keeps what q refers to holds it when it has answered
	return a, sent, objectError(ctx, u, err)
}

// settle is ask for an answer that hands nothing over.
func settle[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q) (A, error) {
	return ask(ctx, u, op, q, nil)
}

// read is ask for an answer that nothing depends on but the caller: when ctx ends,
// read returns at once.
func read[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q) (A, error) {
	return ask(ctx, u, op, q, func(A) {})
}

// do is settle for a request whose answer is empty.
func do[Q any](ctx context.Context, u user, op object.Op[Q, object.None], q Q) error {
	_, err := settle(ctx, u, op, q)
	return err
}

// tell sends a request without an answer, and returns when it is in the socket.
func tell[Q, A any](ctx context.Context, u user, op object.Op[Q, A], q Q) error {
	h := used(u)
	err := object.Tell(ctx, h.proc.objects, h.ref, op, q)
	runtime.KeepAlive(u)
	return objectError(ctx, u, err)
}

// post is tell without waiting; see object.Post.
func post[Q, A any](u user, op object.Op[Q, A], q Q) (queued bool) {
	h := used(u)
	queued = object.Post(h.proc.objects, h.ref, op, q)
	runtime.KeepAlive(u)
	return queued
}

// objectError turns an error of an object's home, or of the object, into the
// user's. Until ctx ends it may wait for a lost home's exit status.
func objectError(ctx context.Context, u user, err error) error {
	if err == nil {
		return nil
	}
	if m, ok := u.(*Manager); ok && errors.Is(err, object.ErrEnded) {
		return m.errClosed()
	}
	return errorOf(ctx, "the "+nounOf(typeOf(u)), err)
}

// errorOf is objectError for what has a name.
func errorOf(ctx context.Context, what string, err error) error {
	var refusal *object.Refusal
	var lost *object.LostError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, object.ErrGone):
		return closedError("%s has ended: it was closed, or no process has held it for a while", what)
	case errors.Is(err, object.ErrEnded):
		return closedError("%s has ended: its manager was closed", what)
	case errors.Is(err, tree.ErrShutdown):
		return err
	case errors.As(err, &lost):
		return lostError(ctx, what, lost)
	case tooLarge(err) != nil:
		return fmt.Errorf("fiber: %s: %w", what, tooLarge(err))
	case errors.As(err, &refusal):
		return refused(what, refusal)
	}
	return fromEngine(err)
}

// refused turns an object's refusal into the user's error.
func refused(what string, r *object.Refusal) error {
	switch r.Code {
	case object.Unknown:
		return &MismatchError{Reason: r.Text}
	case object.TooLarge:
		return fmt.Errorf("fiber: the answer of %s: %w", what, &EncodeError{Index: -1, Reason: r.Text + whatToDo})
	case custom.Failed:
		return unflatten(custom.Failure(r.Text))
	case queue.Closed:
		return closedError("%s was closed", what)
	case queue.TooOften:
		return errors.New("fiber: TaskDone was called more often than there were items; call it once for each item that Get returned")
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

// marshal encodes a reference to the handle's object, the object's type, and
// more.
func (h *handle) marshal(typ string, more ...byte) ([]byte, error) {
	if h == nil {
		return nil, errEmpty(typ)
	}
	return append(wire.AppendString(h.ref.Append(nil), typ), more...), nil
}

// unmarshalHandle attaches to an object of a type, whose reference marshal has
// encoded.
func unmarshalHandle(typ string, b []byte) (h *handle, more []byte, err error) {
	var ref object.Ref
	b, err = ref.Read(b)
	in := wire.Reader{B: b}
	is := in.String()
	if err = errors.Join(err, in.Err); err != nil {
		return nil, nil, err
	}
	if is != typ {
		return nil, nil, mismatch("the reference is to a %s, not to a %s", strings.ToLower(is), strings.ToLower(typ))
	}
	p, err := running()
	if err != nil {
		return nil, nil, err
	}
	return p.attach(ref), in.B, nil
}

// lostError makes the error of a lost home. If that has ended, the process that
// started it waits for its exit status, unless ctx ends first, and reports that.
func lostError(ctx context.Context, what string, lost *object.LostError) error {
	e := &WorkerLostError{Worker: lost.Ref.Process, ExitCode: -1,
		Reason: fmt.Sprintf("the process in which %s lived can no longer be reached: %s", what, strings.TrimPrefix(lost.Err.Error(), "fiber: "))}
	if lost.Ref.PID > 0 {
		e.ID = strconv.Itoa(lost.Ref.PID)
	}
	proc := here()
	if proc == nil {
		return e
	}
	child, ok := proc.homes.Load(lost.Ref.Endpoint)
	if !ok {
		return e
	}
	c := child.(*tree.Child)
	if lost.Certain() || transport.HungUp(lost.Err) {
		select {
		case <-c.Done():
		case <-ctx.Done():
		case <-time.After(exitWait):
		}
	}
	select {
	case <-c.Done():
		return workerLost(c, "", 0, 0)
	default:
		return e
	}
}

// exitWait limits the wait for a lost process's exit status.
const exitWait = 5 * time.Second
