package fiber

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/custom"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
)

// Manager is a process in which objects live that other processes use: objects
// of the program's own types (NewObject, Call) and of Fiber's (NewDict, NewLock and
// so on). It travels as (part of) an argument, so that other processes can make
// objects in it, too. Its methods may be called from many goroutines.
type Manager struct {
	p     proxy
	child *tree.Child // nil in other processes than the one that made it

	closed atomic.Bool
}

var managers atomic.Int64

// NewManager starts a manager and returns when it is up. ctx limits the start
// alone. The error is a *LaunchError, a *MismatchError, ErrNotInitialized, or
// ctx.Err().
func NewManager(ctx context.Context, opts ...ManagerOption) (*Manager, error) {
	proc, err := running()
	if err == nil && ctx == nil {
		err = errNilContext
	}
	if err != nil {
		return nil, err
	}
	ready := make(chan object.Ref, 1)
	spec := tree.Spec{Name: numbered(proc, "Manager", &managers), Assign: wire.Assign{Role: wire.RoleManager},
		Handle: func(kind wire.Kind, frames [][]byte) {
			var ref object.Ref
			if kind == wire.KindReady && wire.Unpack(frames, &ref) == nil {
				select {
				case ready <- ref:
				default: // it was sent before
				}
			}
		}}
	if err := configured("NewManager", &spec, opts, ManagerOption.manager); err != nil {
		return nil, err
	}
	child, err := proc.node.Start(ctx, spec)
	if err != nil {
		return nil, exported(err)
	}
	select {
	case ref := <-ready:
		proc.homes.Store(ref.Endpoint, child)
		m := &Manager{child: child}
		m.p.attach(proc.attach(ref))
		return m, nil
	case <-child.Done():
		return nil, notReady(child, "")
	case <-ctx.Done():
		child.Kill("")
		<-child.Done()
		return nil, ctx.Err()
	}
}

// Close ends the manager's process and all objects in it; using them then
// returns ErrClosed. The contexts of running methods are cancelled, and the
// Close methods of objects are called. Close returns when the process has
// ended, after shutdown_grace at the latest. In a process that did not make the
// manager, and when called a second time, Close is a no-op.
func (m *Manager) Close() error {
	if used(m) == nil {
		return errEmpty("Manager")
	}
	grace, cancel := context.WithTimeout(context.Background(), m.p.h.proc.node.Config.ShutdownGrace)
	defer cancel()
	_ = m.Shutdown(grace)
	return nil
}

// Shutdown is Close, but kills the process when ctx ends, not after shutdown_grace. The
// error is then ctx.Err(), and Close methods may not have returned.
func (m *Manager) Shutdown(ctx context.Context) error {
	switch {
	case used(m) == nil:
		return errEmpty("Manager")
	case ctx == nil:
		return errNilContext
	case m.child == nil:
		return nil
	}
	if !m.closed.Swap(true) {
		m.p.h.proc.objects.Closed(m.p.h.ref)
		m.child.Stop()
	}
	var err error
	select {
	case <-m.child.Done():
	case <-ctx.Done():
		select {
		case <-m.child.Done(): // at the same time, or before
		default:
			err = ctx.Err()
			m.child.Kill("")
			<-m.child.Done()
		}
	}
	m.p.h.proc.homes.Delete(m.p.h.ref.Endpoint)
	return err
}

// Name returns the name of the manager's process.
func (m *Manager) Name() string {
	if used(m) == nil {
		return ""
	}
	return m.p.h.ref.Process
}

// ID names the manager's process where it runs; see Process.ID. It is "" in a
// process that did not make the manager.
func (m *Manager) ID() string {
	if m == nil || m.child == nil {
		return ""
	}
	return m.child.Job().ID()
}

// PID returns the manager's process id in its operating system. It is 0 in a
// process that did not make the manager.
func (m *Manager) PID() int {
	if m == nil || m.child == nil {
		return 0
	}
	return m.child.PID()
}

// MarshalBinary encodes a reference to the manager, which does not keep it alive; see
// Proxy.MarshalBinary.
func (m *Manager) MarshalBinary() ([]byte, error) { return marshalProxy(m) }

// UnmarshalBinary attaches to the manager that a reference names.
func (m *Manager) UnmarshalBinary(b []byte) error { return unmarshalProxy(m, b) }

func (m *Manager) held() (*proxy, string) {
	if m == nil {
		return nil, "Manager"
	}
	return &m.p, "Manager"
}

// handle checks that the manager is initialised and open.
func (m *Manager) handle() (*handle, error) {
	if used(m) == nil {
		return nil, errEmpty("Manager")
	}
	if m.closed.Load() {
		return nil, m.errClosed()
	}
	return m.p.h, nil
}

func (m *Manager) errClosed() error { return closedError("the manager %s was closed", m.Name()) }

// create asks the manager for an object, and returns a T that refers to it.
func create[T any, P proxyOf[T], Q any](ctx context.Context, m *Manager, op object.Op[Q, uint64], q Q) (*T, error) {
	if _, err := m.handle(); err != nil {
		return nil, err
	}
	// An object that comes too late is dropped, since no process holds it.
	id, err := settle(ctx, m, op, q)
	if err != nil {
		return nil, err
	}
	ref := m.p.h.ref
	ref.Object = id
	o := new(T)
	p, _ := P(o).held()
	p.attach(m.p.h.proc.attach(ref))
	return o, nil
}

// ObjectType is a type of managed objects. Create it with RegisterType.
type ObjectType[T, In any] struct {
	name string
	late error // as of a Func
}

// WithConcurrentCalls lets the calls on an object of this type run at the same
// time, in many goroutines. Without it, they run one after another.
func WithConcurrentCalls() TypeOption {
	return typeOption(func(t *custom.Type) error {
		t.Concurrent = true
		return nil
	})
}

// RegisterType lets managers make objects of a type, with a function that makes
// one from an argument. T is most often a pointer. Like Register, call it while
// package variables are initialised:
//
//	var counters = fiber.RegisterType("counter", func(ctx context.Context, start int) (*counter, error) {
//		return &counter{n: start}, nil
//	})
//
// In travels, as for Register; T does not. If an object has a method Close()
// error, it is called when no process has a proxy of the object any more, or
// when the manager is closed. RegisterType panics, with the file and line of
// the call, when the name is taken or In cannot travel.
func RegisterType[T, In any](name string, construct func(ctx context.Context, in In) (T, error), opts ...TypeOption) *ObjectType[T, In] {
	where := callerLine()
	bad := func(reason string) { panic(fmt.Sprintf("%s: fiber.RegisterType(%q): %s", where, name, reason)) }
	if construct == nil {
		bad("the function is nil")
	}
	entry := &custom.Type{Recv: typeName(reflect.TypeFor[T]()), New: func(ctx context.Context, frames [][]byte) (any, error) {
		var arg In
		if err := decodeArgument(ctx, frames, &arg); err != nil {
			return nil, err
		}
		return construct(ctx, arg)
	}}
	if err := configured("its options", entry, opts, TypeOption.typ); err != nil {
		bad(strings.TrimPrefix(err.Error(), "fiber: its options: "))
	}
	late := register(registry.Type, name, "("+signature[In]("its argument", bad)+") "+entry.Recv, where, entry)
	return &ObjectType[T, In]{name, late}
}

// Name returns the name that the type is registered under.
func (t *ObjectType[T, In]) Name() string {
	if t == nil {
		return ""
	}
	return t.name
}

// ObjectMethod is a method of managed objects. Create it with RegisterMethod.
type ObjectMethod[T, In, Out any] struct {
	key  string
	late error // as of a Func
}

// RegisterMethod makes a method callable through proxies, under a name that is
// unique among the methods of T. Like Register, call it while package variables
// are initialised, most often with a method expression:
//
//	var add = fiber.RegisterMethod("add", (*counter).Add)
//
// with Add(ctx context.Context, n int) (int, error). In and Out travel, as for
// Register. RegisterMethod panics, with the file and line of the call, when the
// name is taken or a type cannot travel.
func RegisterMethod[T, In, Out any](name string, method func(object T, ctx context.Context, in In) (Out, error)) *ObjectMethod[T, In, Out] {
	where := callerLine()
	bad := func(reason string) { panic(fmt.Sprintf("%s: fiber.RegisterMethod(%q): %s", where, name, reason)) }
	switch {
	case method == nil:
		bad("the method is nil")
	case strings.TrimSpace(name) == "":
		bad("the name is empty")
	}
	entry := &custom.Method{Recv: typeName(reflect.TypeFor[T]()), Call: func(ctx context.Context, receiver any, frames [][]byte) ([][]byte, any, error) {
		var arg In
		if err := decodeArgument(ctx, frames, &arg); err != nil {
			return nil, nil, err
		}
		result, err := method(receiver.(T), ctx, arg)
		if err != nil {
			return nil, nil, err
		}
		return marshal(ctx, result)
	}}
	m := &ObjectMethod[T, In, Out]{key: entry.Recv + "." + name}
	m.late = register(registry.Method, m.key, "("+signature[In]("its argument", bad)+") "+signature[Out]("its result", bad), where, entry)
	return m
}

// Name returns the name of the method's type, a dot, and the name that the
// method is registered under.
func (m *ObjectMethod[T, In, Out]) Name() string {
	if m == nil {
		return ""
	}
	return m.key
}

// Proxy refers to an object of type T that lives in a manager. Create it with
// NewObject. It travels as (part of) an argument, a result, or inside other managed
// objects. The object lives as long as its manager does and some process has a
// proxy of it. Any goroutine may use a proxy.
type Proxy[T any] struct{ p proxy }

// NewObject makes an object in a manager: it calls the type's function there, with
// in, and waits for the object. The error is a *RemoteError when the function
// failed, ErrClosed when the manager was closed, a *WorkerLostError when its
// process was lost, an *EncodeError, a *MismatchError, or ctx.Err(). The end of
// ctx also ends the function's context; if the function had begun, the error is
// ErrUnknownOutcome as well, and there is no object.
func NewObject[T, In any](ctx context.Context, m *Manager, typ *ObjectType[T, In], in In) (*Proxy[T], error) {
	h, err := m.handle()
	if err != nil {
		return nil, err
	}
	if typ.Name() == "" {
		return nil, errEmpty("ObjectType")
	}
	if typ.late != nil {
		return nil, typ.late
	}
	arg, err := h.argument(ctx, typ.name, in)
	if err != nil {
		return nil, err
	}
	p, err := create[Proxy[T]](ctx, m, custom.New, arg)
	runtime.KeepAlive(in) // keeps what in refers to until the object has it
	return p, err
}

// argument encodes the argument of the type or method of a name.
func (h *handle) argument(ctx context.Context, name string, in any) (arg custom.Argument, err error) {
	if ctx == nil {
		return arg, errNilContext
	}
	frames, err := marshalLingering(ctx, in)
	if err == nil {
		err = h.proc.fits(frames)
	}
	switch {
	case err == nil:
	case err == ctx.Err():
		return arg, err
	default:
		return arg, errorf("fiber: the argument of %s: %w", name, err)
	}
	return custom.Argument{Name: name, Value: object.Encoded(frames)}, nil
}

// Call calls a method of a managed object and waits for its result. Calls on
// one object run one after another, in the order in which they arrive, unless
// its type is registered with WithConcurrentCalls; so a method that calls its own
// object waits for itself.
//
// When ctx ends, Call returns ctx.Err(), at once or, if the object's process does
// not answer, within a second. The context of a running method then ends, too, and
// the error is ErrUnknownOutcome as well; a method that has not begun does not run.
// The other errors are NewObject's.
func Call[T, In, Out any](ctx context.Context, p *Proxy[T], method *ObjectMethod[T, In, Out], in In) (Out, error) {
	var out Out
	arg, err := callOf(ctx, p, method, in)
	if err != nil {
		return out, err
	}
	result, err := settle(ctx, p, custom.Call, arg)
	runtime.KeepAlive(in) // keeps what in refers to until the object has answered
	if err != nil {
		return out, err
	}
	return out, resultOf(method.key, result, &out)
}

// CallAsync begins a call and returns a future of its result. It blocks only
// until the process in which the object lives is reached and takes the message.
// Any number of calls may be under way at a time: each future receives the
// answer to its own call, and ignoring a future does not affect other calls.
// The future's errors are Call's. When ctx ends, the future resolves at once, with
// an error that is ErrUnknownOutcome, too.
func CallAsync[T, In, Out any](ctx context.Context, p *Proxy[T], method *ObjectMethod[T, In, Out], in In) *Future[Out] {
	f := newFuture[Out]()
	if err := ended(ctx); err != nil {
		f.reject(err)
		return f
	}
	arg, err := callOf(ctx, p, method, in)
	if err != nil {
		f.reject(err)
		return f
	}
	arrive := func(result object.Value, err error) {
		var out Out
		if err == nil {
			err = resultOf(method.key, result, &out)
		} else {
			err = objectError(ctx, p, object.Settled(ctx, err))
		}
		f.resolve(out, err)
		runtime.KeepAlive(p) // as in Call
		runtime.KeepAlive(in)
	}
	w, err := object.Start(ctx, p.p.h.proc.objects, p.p.h.ref, custom.Call, arg, func(result object.Value, err error) {
		// An error may wait for the exit status of a lost process.
		if err != nil || codec.Size(result.Frames()) > smallResult {
			go arrive(result, err)
		} else {
			arrive(result, nil)
		}
	})
	if err != nil {
		f.reject(objectError(ctx, p, err))
		return f
	}
	f.read(w.Help)
	f.cancels(ctx, func(err error) {
		w.GiveUp() // before the future is resolved
		f.reject(object.UnknownOutcome(err))
	})
	return f
}

// smallResult is the size of the largest results that are decoded by the
// goroutine that reads them, while the results of other calls wait.
const smallResult = 16 << 10

// callOf encodes a call.
func callOf[T, In, Out any](ctx context.Context, p *Proxy[T], method *ObjectMethod[T, In, Out], in In) (arg custom.Argument, err error) {
	switch {
	case used(p) == nil:
		return arg, errEmpty("Proxy")
	case method.Name() == "":
		return arg, errEmpty("ObjectMethod")
	case method.late != nil:
		return arg, method.late
	}
	return p.p.h.argument(ctx, method.key, in)
}

func resultOf(method string, result object.Value, out any) error {
	_, err := unmarshal(result.Frames(), out)
	runtime.KeepAlive(result) // as in decode
	if err != nil {
		return errorf("fiber: the result of %s: %w", method, err)
	}
	return nil
}

// MarshalBinary encodes a reference to the object. Fiber calls it for proxies inside
// arguments, results and values, and keeps their objects alive until the receiver has
// them. If you call it yourself, in the encoding of a type of your own say, the bytes
// keep nothing alive: keep the proxy until the receiver has decoded them.
func (p *Proxy[T]) MarshalBinary() ([]byte, error) {
	return marshalProxy(p, []byte(typeName(reflect.TypeFor[T]()))...)
}

// UnmarshalBinary attaches to the object that a reference names, which must be
// a T.
func (p *Proxy[T]) UnmarshalBinary(b []byte) error {
	if p == nil {
		return errEmpty("Proxy")
	}
	other := new(Proxy[T])
	more, err := unmarshalMore(other, b)
	if err != nil {
		return err
	}
	if want := typeName(reflect.TypeFor[T]()); string(more) != want {
		return mismatch("the proxy is of a %s, not of a %s", more, want)
	}
	p.p = other.p
	return nil
}

func (p *Proxy[T]) held() (*proxy, string) {
	if p == nil {
		return nil, "Proxy"
	}
	return &p.p, "Proxy"
}

// runManager makes this process a manager until it is told to stop.
func runManager(ctx context.Context, parent *tree.Parent) int {
	proc := here()
	service := custom.NewService(proc.objects, custom.Options{Error: flatten, Fits: proc.fits,
		Log: func(name string, failure *wire.Error) {
			proc.node.Log.Warn("fiber: an object's Close failed", "type", name, "error", unflatten(failure))
		}})
	ref, err := proc.objects.Make(service, true)
	if err != nil {
		return finish(parent, flatten("the manager", err))
	}
	if err := parent.Post(wire.MustPack(wire.KindReady, ref)...); err != nil {
		return 1
	}
	stopped := make(chan struct{})
	stop := sync.OnceFunc(func() { close(stopped) })
	go obeyParent(parent, func(kind wire.Kind, _ [][]byte) {
		if kind == wire.KindStop {
			stop()
		}
	})
	select {
	case <-stopped:
		proc.objects.Ends(true)
	case <-ctx.Done():
		proc.objects.Ends(false)
	}
	grace, cancel := context.WithTimeout(context.Background(), proc.node.Config.ShutdownGrace/2)
	defer cancel()
	service.End(grace)
	leave(grace)
	return 0
}
