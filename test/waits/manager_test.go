//go:build unix

package waits_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// onManager is a stage whose peer is a manager, and the others set the keys of a
// dict there.
func onManager(t *testing.T) *stage {
	s := &stage{m: fibertest.NewManager(t)}
	s.pid = s.m.PID()
	others := fibertest.Sure(fiber.NewDict[string, int](fibertest.Soon(t), s.m))(t)
	s.busy = func(ctx context.Context) error { return others.Set(ctx, "others", 1) }
	return s
}

// object is a row about an object of a manager, which newOne makes. make returns
// the call, and state what the call would change.
func object[O any](name string, k kind, newOne func(context.Context, *fiber.Manager) (O, error),
	call func(o O, s *stage) func(context.Context) error, state func(O) func(context.Context) (any, error)) row {
	return row{name: name, kind: k, at: onManager, make: func(t *testing.T, s *stage) trial {
		o := fibertest.Sure(newOne(fibertest.Soon(t), s.m))(t)
		tr := trial{call: call(o, s)}
		if state != nil {
			tr.state = state(o)
		}
		return tr
	}}
}

// only is an error, of a call that returns something, too.
func only[T any](_ T, err error) error { return err }

func two[T, U any](_ T, _ U, err error) error { return err }

// next is the error that a sequence begins with; nil where it is empty.
func next[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		return err
	}
	return nil
}

// constructor is a row about making something in a manager.
func constructor(name string, k kind, call func(context.Context, *stage) error) row {
	return row{name: name, kind: k, at: onManager, make: func(_ *testing.T, s *stage) trial {
		return trial{call: func(ctx context.Context) error { return call(ctx, s) }}
	}}
}

var constructors = []row{
	constructor("NewArray", carries, func(ctx context.Context, s *stage) error {
		return only(fiber.NewArray(ctx, s.m, [][]byte{s.value()}))
	}),
	constructor("NewBarrier", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewBarrier(ctx, s.m, 2)) }),
	constructor("NewBoundedSemaphore", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewBoundedSemaphore(ctx, s.m, 1)) }),
	constructor("NewCondition", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewCondition(ctx, s.m, nil)) }),
	constructor("NewDict", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewDict[string, int](ctx, s.m)) }),
	constructor("NewEvent", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewEvent(ctx, s.m)) }),
	constructor("NewJoinableQueue", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewJoinableQueue[int](ctx, s.m)) }),
	constructor("NewList", carries, func(ctx context.Context, s *stage) error { return only(fiber.NewList(ctx, s.m, s.value())) }),
	constructor("NewLock", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewLock(ctx, s.m)) }),
	constructor("NewNamespace", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewNamespace(ctx, s.m)) }),
	constructor("NewQueue", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewQueue[int](ctx, s.m)) }),
	constructor("NewRLock", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewRLock(ctx, s.m)) }),
	constructor("NewSemaphore", asks, func(ctx context.Context, s *stage) error { return only(fiber.NewSemaphore(ctx, s.m, 1)) }),
	constructor("NewValue", carries, func(ctx context.Context, s *stage) error { return only(fiber.NewValue(ctx, s.m, s.value())) }),
}

type dict = fiber.Dict[string, []byte]

// newDict makes a dict with one key.
func newDict(ctx context.Context, m *fiber.Manager) (*dict, error) {
	d, err := fiber.NewDict[string, []byte](ctx, m)
	if err != nil {
		return nil, err
	}
	return d, d.Set(ctx, "key", []byte("old"))
}

// lengths are the keys of a dict, and how long their values are.
func lengths(d *dict) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		all, err := d.All(ctx)
		if err != nil {
			return nil, err
		}
		keys := map[string]int{}
		for k, v := range all {
			keys[k] = len(v)
		}
		return keys, nil
	}
}

func ofDict(name string, k kind, call func(context.Context, *dict, []byte) error) row {
	return object("Dict."+name, k, newDict, func(d *dict, s *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, d, s.value()) }
	}, lengths)
}

var dicts = []row{
	ofDict("All", asks, func(ctx context.Context, d *dict, _ []byte) error { return only(d.All(ctx)) }),
	ofDict("Clear", asks, func(ctx context.Context, d *dict, _ []byte) error { return d.Clear(ctx) }),
	ofDict("CompareAndSet", carries, func(ctx context.Context, d *dict, v []byte) error {
		return only(d.CompareAndSet(ctx, "key", []byte("old"), v))
	}),
	ofDict("Delete", asks, func(ctx context.Context, d *dict, _ []byte) error { return only(d.Delete(ctx, "key")) }),
	ofDict("Get", asks, func(ctx context.Context, d *dict, _ []byte) error { return two(d.Get(ctx, "key")) }),
	ofDict("Has", asks, func(ctx context.Context, d *dict, _ []byte) error { return only(d.Has(ctx, "key")) }),
	ofDict("Keys", asks, func(ctx context.Context, d *dict, _ []byte) error { return only(d.Keys(ctx)) }),
	ofDict("Len", asks, func(ctx context.Context, d *dict, _ []byte) error { return only(d.Len(ctx)) }),
	ofDict("Pop", asks, func(ctx context.Context, d *dict, _ []byte) error { return two(d.Pop(ctx, "key")) }),
	ofDict("Set", carries, func(ctx context.Context, d *dict, v []byte) error { return d.Set(ctx, "key", v) }),
	ofDict("SetDefault", carries, func(ctx context.Context, d *dict, v []byte) error { return only(d.SetDefault(ctx, "new", v)) }),
	ofDict("SetMany", carries, func(ctx context.Context, d *dict, v []byte) error {
		return d.SetMany(ctx, map[string][]byte{"key": v, "new": v})
	}),
	ofDict("Update", asks, func(ctx context.Context, d *dict, v []byte) error {
		return only(d.Update(ctx, "key", func([]byte, bool) ([]byte, error) { return v, nil }))
	}),
	ofDict("Values", asks, func(ctx context.Context, d *dict, _ []byte) error { return only(d.Values(ctx)) }),
}

// sequence is what lists and arrays have in common.
type sequence interface {
	All(context.Context) (iter.Seq2[int, []byte], error)
	CompareAndSet(context.Context, int, []byte, []byte) (bool, error)
	Get(context.Context, int) ([]byte, error)
	Len(context.Context) (int, error)
	Set(context.Context, int, []byte) error
	Slice(context.Context, int, int) ([][]byte, error)
	Update(context.Context, int, func([]byte) ([]byte, error)) ([]byte, error)
}

// ofSequence is a row about a list or an array of two.
func ofSequence[S sequence](name string, k kind, newOne func(context.Context, *fiber.Manager, ...[]byte) (S, error), call func(context.Context, S, []byte) error) row {
	return object(name, k, func(ctx context.Context, m *fiber.Manager) (S, error) {
		return newOne(ctx, m, []byte("old"), []byte("second"))
	}, func(l S, s *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, l, s.value()) }
	}, func(l S) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			all, err := l.All(ctx)
			if err != nil {
				return nil, err
			}
			var long []int
			for _, v := range all {
				long = append(long, len(v))
			}
			return long, nil
		}
	})
}

// ofSequences are the rows that lists and arrays have in common.
func ofSequences[S sequence](typ string, newOne func(context.Context, *fiber.Manager, ...[]byte) (S, error)) []row {
	of := func(method string, k kind, call func(context.Context, S, []byte) error) row {
		return ofSequence(typ+"."+method, k, newOne, call)
	}
	return []row{
		of("All", asks, func(ctx context.Context, l S, _ []byte) error { return only(l.All(ctx)) }),
		of("CompareAndSet", carries, func(ctx context.Context, l S, v []byte) error { return only(l.CompareAndSet(ctx, 0, []byte("old"), v)) }),
		of("Get", asks, func(ctx context.Context, l S, _ []byte) error { return only(l.Get(ctx, 0)) }),
		of("Len", asks, func(ctx context.Context, l S, _ []byte) error { return only(l.Len(ctx)) }),
		of("Set", carries, func(ctx context.Context, l S, v []byte) error { return l.Set(ctx, 0, v) }),
		of("Slice", asks, func(ctx context.Context, l S, _ []byte) error { return only(l.Slice(ctx, 0, 1)) }),
		of("Update", asks, func(ctx context.Context, l S, v []byte) error {
			return only(l.Update(ctx, 0, func([]byte) ([]byte, error) { return v, nil }))
		}),
	}
}

type list = fiber.List[[]byte]

func ofList(method string, k kind, call func(context.Context, *list, []byte) error) row {
	return ofSequence("List."+method, k, fiber.NewList[[]byte], call)
}

type array = fiber.Array[[]byte]

func newArray(ctx context.Context, m *fiber.Manager, values ...[]byte) (*array, error) {
	return fiber.NewArray(ctx, m, values)
}

var sequences = slices.Concat(
	ofSequences("List", fiber.NewList[[]byte]),
	ofSequences("Array", newArray),
	[]row{
		ofSequence("Array.SetSlice", carries, newArray, func(ctx context.Context, a *array, v []byte) error {
			return a.SetSlice(ctx, 0, [][]byte{v, v})
		}),
		ofList("Append", carries, func(ctx context.Context, l *list, v []byte) error { return l.Append(ctx, v) }),
		ofList("Clear", asks, func(ctx context.Context, l *list, _ []byte) error { return l.Clear(ctx) }),
		ofList("Delete", asks, func(ctx context.Context, l *list, _ []byte) error { return l.Delete(ctx, 0) }),
		ofList("Extend", carries, func(ctx context.Context, l *list, v []byte) error { return l.Extend(ctx, [][]byte{v, v}) }),
		ofList("Insert", carries, func(ctx context.Context, l *list, v []byte) error { return l.Insert(ctx, 1, v) }),
		ofList("Pop", asks, func(ctx context.Context, l *list, _ []byte) error { return only(l.Pop(ctx, 0)) }),
		ofList("Remove", carries, func(ctx context.Context, l *list, v []byte) error { return only(l.Remove(ctx, v)) }),
	})

func ofValue(method string, k kind, call func(context.Context, *fiber.Value[[]byte], []byte) error) row {
	return object("Value."+method, k, func(ctx context.Context, m *fiber.Manager) (*fiber.Value[[]byte], error) {
		return fiber.NewValue(ctx, m, []byte("old"))
	}, func(o *fiber.Value[[]byte], s *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, o, s.value()) }
	}, func(o *fiber.Value[[]byte]) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			v, err := o.Get(ctx)
			return len(v), err
		}
	})
}

func ofNamespace(method string, k kind, call func(context.Context, *fiber.Namespace, []byte) error) row {
	return object("Namespace."+method, k, func(ctx context.Context, m *fiber.Manager) (*fiber.Namespace, error) {
		n, err := fiber.NewNamespace(ctx, m)
		if err != nil {
			return nil, err
		}
		return n, n.Set(ctx, "name", []byte("old"))
	}, func(n *fiber.Namespace, s *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, n, s.value()) }
	}, func(n *fiber.Namespace) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			var v []byte
			_, err := n.Get(ctx, "name", &v)
			return len(v), err
		}
	})
}

var values = []row{
	ofValue("CompareAndSet", carries, func(ctx context.Context, o *fiber.Value[[]byte], v []byte) error {
		return only(o.CompareAndSet(ctx, []byte("old"), v))
	}),
	ofValue("Get", asks, func(ctx context.Context, o *fiber.Value[[]byte], _ []byte) error { return only(o.Get(ctx)) }),
	ofValue("Watch", waits, func(ctx context.Context, o *fiber.Value[[]byte], _ []byte) (err error) {
		for _, err = range o.Watch(ctx) {
		}
		return err
	}),
	ofValue("Set", carries, func(ctx context.Context, o *fiber.Value[[]byte], v []byte) error { return o.Set(ctx, v) }),
	ofValue("Update", asks, func(ctx context.Context, o *fiber.Value[[]byte], v []byte) error {
		return only(o.Update(ctx, func([]byte) ([]byte, error) { return v, nil }))
	}),
	ofNamespace("Delete", asks, func(ctx context.Context, n *fiber.Namespace, _ []byte) error { return only(n.Delete(ctx, "name")) }),
	ofNamespace("Get", asks, func(ctx context.Context, n *fiber.Namespace, _ []byte) error {
		var v []byte
		return only(n.Get(ctx, "name", &v))
	}),
	ofNamespace("Names", asks, func(ctx context.Context, n *fiber.Namespace, _ []byte) error { return only(n.Names(ctx)) }),
	ofNamespace("Set", carries, func(ctx context.Context, n *fiber.Namespace, v []byte) error { return n.Set(ctx, "name", v) }),
}

func ofEvent(method string, k kind, call func(*fiber.Event, context.Context) error) row {
	return object("Event."+method, k, func(ctx context.Context, m *fiber.Manager) (*fiber.Event, error) {
		e, err := fiber.NewEvent(ctx, m)
		if err == nil && method == "Clear" {
			err = e.Set(ctx)
		}
		return e, err
	}, func(e *fiber.Event, _ *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(e, ctx) }
	}, func(e *fiber.Event) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) { return e.IsSet(ctx) }
	})
}

var events = []row{
	ofEvent("Clear", asks, (*fiber.Event).Clear),
	ofEvent("IsSet", asks, func(e *fiber.Event, ctx context.Context) error { return only(e.IsSet(ctx)) }),
	ofEvent("Set", asks, (*fiber.Event).Set),
	ofEvent("Wait", waits, (*fiber.Event).Wait),
}

func ofBarrier(method string, k kind, call func(*fiber.Barrier, context.Context) error) row {
	return object("Barrier."+method, k, func(ctx context.Context, m *fiber.Manager) (*fiber.Barrier, error) {
		b, err := fiber.NewBarrier(ctx, m, 2)
		if err == nil && method == "Reset" {
			err = b.Abort(ctx)
		}
		return b, err
	}, func(b *fiber.Barrier, _ *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(b, ctx) }
	}, func(b *fiber.Barrier) func(context.Context) (any, error) {
		if method == "Wait" {
			return nil // it breaks
		}
		return func(ctx context.Context) (any, error) { return b.Broken(ctx) }
	})
}

var barriers = []row{
	ofBarrier("Abort", asks, (*fiber.Barrier).Abort),
	ofBarrier("Broken", asks, func(b *fiber.Barrier, ctx context.Context) error { return only(b.Broken(ctx)) }),
	ofBarrier("Parties", asks, func(b *fiber.Barrier, ctx context.Context) error { return only(b.Parties(ctx)) }),
	ofBarrier("Reset", asks, (*fiber.Barrier).Reset),
	ofBarrier("Wait", waits, func(b *fiber.Barrier, ctx context.Context) error { return only(b.Wait(ctx)) }),
	ofBarrier("Waiting", asks, func(b *fiber.Barrier, ctx context.Context) error { return only(b.Waiting(ctx)) }),
}

// permits is what locks and semaphores have in common.
type permits interface {
	Acquire(context.Context) error
	TryAcquire(context.Context) (bool, error)
	Release(context.Context) error
	With(context.Context, func(context.Context) error) error
	MarshalBinary() ([]byte, error)
	UnmarshalBinary([]byte) error
}

// another returns another proxy of the same object.
func another[P any, PP interface {
	*P
	permits
}](t *testing.T, one PP) PP {
	t.Helper()
	p := PP(new(P))
	require.NoError(t, p.UnmarshalBinary(fibertest.Sure(one.MarshalBinary())(t)))
	return p
}

// ofPermits are the rows that locks and semaphores have in common.
func ofPermits[P any, PP interface {
	*P
	permits
}](typ string, newOne func(context.Context, *fiber.Manager) (PP, error)) []row {
	// free says whether another one could take it now.
	free := func(t *testing.T, p PP) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			p := another(t, p)
			ok, err := p.TryAcquire(ctx)
			if ok {
				err = p.Release(ctx)
			}
			return ok, err
		}
	}
	of := func(method string, k kind, held bool, call func(PP, context.Context) error) row {
		return row{name: typ + "." + method, kind: k, at: onManager, make: func(t *testing.T, s *stage) trial {
			p := fibertest.Sure(newOne(fibertest.Soon(t), s.m))(t)
			caller := p
			if held {
				require.NoError(t, p.Acquire(fibertest.Soon(t)))
				caller = another(t, p)
			}
			return trial{call: func(ctx context.Context) error { return call(caller, ctx) }, state: free(t, p)}
		}}
	}
	acquire := func(p PP, ctx context.Context) error { return p.Acquire(ctx) }
	with := func(p PP, ctx context.Context) error {
		return p.With(ctx, func(context.Context) error { panic("it has it") })
	}
	release := of("Release", asks, false, func(p PP, ctx context.Context) error { return p.Release(ctx) })
	release.make = func(t *testing.T, s *stage) trial {
		p := fibertest.Sure(newOne(fibertest.Soon(t), s.m))(t)
		require.NoError(t, p.Acquire(fibertest.Soon(t)))
		return trial{call: p.Release}
	}
	release.but = map[situation]outcome{before: is("nil")} // even if its context has ended
	rows := []row{
		of("Acquire", waits, true, acquire),
		of("Acquire", asks, false, acquire),
		of("TryAcquire", asks, false, func(p PP, ctx context.Context) error { return only(p.TryAcquire(ctx)) }),
		of("With", waits, true, with),
		of("With", asks, false, with),
		release,
	}
	rows[0].how, rows[1].how, rows[3].how, rows[4].how = "held", "free", "held", "free"
	return rows
}

func newSemaphore(ctx context.Context, m *fiber.Manager) (*fiber.Semaphore, error) {
	return fiber.NewSemaphore(ctx, m, 1)
}

func newBoundedSemaphore(ctx context.Context, m *fiber.Manager) (*fiber.BoundedSemaphore, error) {
	return fiber.NewBoundedSemaphore(ctx, m, 1)
}

func newCondition(ctx context.Context, m *fiber.Manager) (*fiber.Condition, error) {
	return fiber.NewCondition(ctx, m, nil)
}

// ofCondition is a row about a condition that is held.
func ofCondition(method string, k kind, call func(context.Context, *fiber.Condition) error) row {
	return object("Condition."+method, k, func(ctx context.Context, m *fiber.Manager) (*fiber.Condition, error) {
		c, err := newCondition(ctx, m)
		if err == nil {
			err = c.Acquire(ctx)
		}
		return c, err
	}, func(c *fiber.Condition, _ *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, c) }
	}, nil)
}

var locks = slices.Concat(
	ofPermits("Lock", fiber.NewLock),
	ofPermits("RLock", fiber.NewRLock),
	ofPermits("Semaphore", newSemaphore),
	ofPermits("BoundedSemaphore", newBoundedSemaphore),
	ofPermits("Condition", newCondition),
	[]row{
		object("Semaphore.Permits", asks, newSemaphore, func(p *fiber.Semaphore, _ *stage) func(context.Context) error {
			return func(ctx context.Context) error { return only(p.Permits(ctx)) }
		}, nil),
		object("BoundedSemaphore.Permits", asks, newBoundedSemaphore, func(p *fiber.BoundedSemaphore, _ *stage) func(context.Context) error {
			return func(ctx context.Context) error { return only(p.Permits(ctx)) }
		}, nil),
		ofCondition("Notify", asks, func(ctx context.Context, c *fiber.Condition) error { return c.Notify(ctx, 1) }),
		ofCondition("NotifyAll", asks, func(ctx context.Context, c *fiber.Condition) error { return c.NotifyAll(ctx) }),
		ofCondition("Wait", waits, func(ctx context.Context, c *fiber.Condition) error { return c.Wait(ctx) }),
		ofCondition("WaitFor", waits, func(ctx context.Context, c *fiber.Condition) error {
			return c.WaitFor(ctx, func() (bool, error) { return false, nil })
		}),
	})

// patient is an object that lives in a manager, and whose methods wait.
type patient struct{}

var (
	patients = fiber.RegisterType("patient", func(_ context.Context, _ []byte) (*patient, error) { return &patient{}, nil })
	endless  = fiber.RegisterType("endless", func(ctx context.Context, _ []byte) (*patient, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	stand = fiber.RegisterMethod("stand", func(_ *patient, ctx context.Context, b []byte) (int, error) {
		<-ctx.Done()
		return len(b), ctx.Err()
	})
)

func newPatient(ctx context.Context, m *fiber.Manager) (*fiber.Proxy[*patient], error) {
	return fiber.NewObject(ctx, m, patients, nil)
}

var managed = []row{
	constructor("NewObject", waitsWith, func(ctx context.Context, s *stage) error { return only(fiber.NewObject(ctx, s.m, endless, s.value())) }),
	object("Call", waitsWith, newPatient, func(p *fiber.Proxy[*patient], s *stage) func(context.Context) error {
		return func(ctx context.Context) error { return only(fiber.Call(ctx, p, stand, s.value())) }
	}, nil),
	object("CallAsync", waitsWith, newPatient, func(p *fiber.Proxy[*patient], s *stage) func(context.Context) error {
		return func(ctx context.Context) error {
			return only(fiber.CallAsync(ctx, p, stand, s.value()).Get(context.Background()))
		}
	}, nil),
	row{name: "Future.Get", how: "of a call", kind: waits, at: onManager, make: func(t *testing.T, s *stage) trial {
		p := fibertest.Sure(newPatient(fibertest.Soon(t), s.m))(t)
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		f := fiber.CallAsync(ctx, p, stand, s.value())
		return trial{call: func(ctx context.Context) error { return only(f.Get(ctx)) }}
	}},
}
