//go:build unix

package objects_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// slot is a value of one of several sorts.
type slot struct {
	N    int
	Ns   []int
	List *fiber.List[int]
}

type sharedData struct {
	Namespace *fiber.Namespace
	List      *fiber.List[slot]
	Dict      *fiber.Dict[int, slot]
}

// addOnes adds one in four ways: to a number, which is set again; to a copy,
// which is not; to a copy which is; and to a managed list.
func addOnes(get func(int) (slot, error), set func(int, slot) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		n, err := get(0)
		if err != nil {
			return err
		}
		n.N++
		lost, err := get(1)
		if err != nil {
			return err
		}
		lost.Ns[0]++
		kept, err := get(2)
		if err != nil {
			return err
		}
		kept.Ns[0]++
		list, err := get(3)
		if err != nil {
			return err
		}
		_, err = list.List.Update(ctx, 0, func(n int) (int, error) { return n + 1, nil })
		return errors.Join(set(0, n), set(2, kept), err)
	}
}

var changeShared = fiber.Register("changeShared", func(ctx context.Context, s sharedData) (fibertest.None, error) {
	var x int
	var y, z []int
	for name, into := range map[string]any{"x": &x, "y": &y, "z": &z} {
		if _, err := s.Namespace.Get(ctx, name, into); err != nil {
			return fibertest.None{}, err
		}
	}
	x++
	y[0]++
	z[0]++
	return fibertest.None{}, errors.Join(s.Namespace.Set(ctx, "x", x), s.Namespace.Set(ctx, "z", z),
		addOnes(func(i int) (slot, error) { return s.List.Get(ctx, i) },
			func(i int, v slot) error { return s.List.Set(ctx, i, v) })(ctx),
		addOnes(func(i int) (slot, error) { v, _, err := s.Dict.Get(ctx, i); return v, err },
			func(i int, v slot) error { return s.Dict.Set(ctx, i, v) })(ctx))
})

// Which changes of a child are seen, as in the original's tests.
func TestWriteBack(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	s := sharedData{fibertest.Sure(fiber.NewNamespace(ctx, m))(t), newList[slot](t, m), newDict[int, slot](t, m)}
	require.NoError(t, s.Namespace.Set(ctx, "x", 1))
	require.NoError(t, s.Namespace.Set(ctx, "y", []int{1}))
	require.NoError(t, s.Namespace.Set(ctx, "z", []int{1}))
	slots := func() []slot { return []slot{{N: 1}, {Ns: []int{1}}, {Ns: []int{1}}, {List: newList(t, m, 1)}} }
	require.NoError(t, s.List.Extend(ctx, slots()))
	for i, v := range slots() {
		require.NoError(t, s.Dict.Set(ctx, i, v))
	}

	p := fiber.NewProcess(changeShared, s)
	require.NoError(t, p.Start(ctx))
	require.NoError(t, p.Join(ctx))

	var x int
	var y, z []int
	for name, into := range map[string]any{"x": &x, "y": &y, "z": &z} {
		require.True(t, fibertest.Sure(s.Namespace.Get(ctx, name, into))(t))
	}
	require.Equal(t, 2, x)
	require.Equal(t, []int{1}, y)
	require.Equal(t, []int{2}, z)
	check := func(get func(int) slot, n int) {
		require.Equal(t, 4, n)
		require.Equal(t, 2, get(0).N)
		require.Equal(t, []int{1}, get(1).Ns)
		require.Equal(t, []int{2}, get(2).Ns)
		require.Equal(t, []int{2}, elements(t, get(3).List))
	}
	check(func(i int) slot { return fibertest.Sure(s.List.Get(ctx, i))(t) }, fibertest.Sure(s.List.Len(ctx))(t))
	check(func(i int) slot { return got(s.Dict.Get(ctx, i))(t) }, fibertest.Sure(s.Dict.Len(ctx))(t))
}

// Objects live as long as others name them, and no longer.
func TestObjectsInObjects(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	outer := newDict[string, *fiber.Dict[string, *fiber.List[int]]](t, m)
	inner := newDict[string, *fiber.List[int]](t, m)
	require.NoError(t, inner.Set(ctx, "l", newList(t, m, 1, 2)))
	require.NoError(t, outer.Set(ctx, "d", inner))
	inner = nil
	pool := fibertest.NewPool(t, 1)
	require.NoError(t, apply(ctx, pool, dropGarbage))
	l := got(got(outer.Get(ctx, "d"))(t).Get(ctx, "l"))(t)
	require.Equal(t, []int{1, 2}, elements(t, l))

	// One that holds itself can be let go of.
	type knot struct{ D *fiber.Dict[int, slot] }
	self := newDict[int, any](t, m)
	require.NoError(t, self.Set(ctx, 1, self))
	require.NoError(t, self.Set(ctx, 2, knot{}))
	require.NoError(t, self.Set(ctx, 1, 0))
	require.Equal(t, 2, fibertest.Sure(self.Len(ctx))(t))

	// A queue of this process, held by nobody but a list of the manager.
	queues := newList[*fiber.SimpleQueue[string]](t, m)
	q := fibertest.Sure(fiber.NewSimpleQueue[string]())(t)
	require.NoError(t, q.Put(ctx, "word"))
	require.NoError(t, queues.Append(ctx, q))
	require.Equal(t, "word", fibertest.Sure(fibertest.Sure(queues.Pop(ctx, 0))(t).Get(ctx))(t))
}

func apply(ctx context.Context, pool *fiber.Pool, fn *fiber.Func[fibertest.None, fibertest.None]) error {
	_, err := fiber.Apply(ctx, pool, fn, fibertest.None{})
	return err
}

var dropGarbage = fiber.Register("dropGarbage", func(context.Context, fibertest.None) (fibertest.None, error) { return fibertest.None{}, nil })

// everything is one of each type.
type everything struct {
	Dict      *fiber.Dict[string, int]
	List      *fiber.List[int]
	Namespace *fiber.Namespace
	Value     *fiber.Value[int]
	Array     *fiber.Array[int]
	Queue     *fiber.Queue[int]
	Joinable  *fiber.JoinableQueue[int]
	Lock      *fiber.Lock
	RLock     *fiber.RLock
	Semaphore *fiber.Semaphore
	Bounded   *fiber.BoundedSemaphore
	Event     *fiber.Event
	Condition *fiber.Condition
	Barrier   *fiber.Barrier
	Deep      int // processes below the one that gets it
}

func newEverything(t testing.TB, m *fiber.Manager) everything {
	t.Helper()
	ctx := fibertest.Soon(t)
	return everything{
		newDict[string, int](t, m), newList(t, m, 0), fibertest.Sure(fiber.NewNamespace(ctx, m))(t), fibertest.Sure(fiber.NewValue(ctx, m, 0))(t),
		fibertest.Sure(fiber.NewArray(ctx, m, []int{0}))(t), fibertest.Sure(fiber.NewQueue[int](ctx, m))(t), fibertest.Sure(fiber.NewJoinableQueue[int](ctx, m))(t),
		fibertest.Sure(fiber.NewLock(ctx, m))(t), fibertest.Sure(fiber.NewRLock(ctx, m))(t), fibertest.Sure(fiber.NewSemaphore(ctx, m, 1))(t),
		fibertest.Sure(fiber.NewBoundedSemaphore(ctx, m, 1))(t), fibertest.Sure(fiber.NewEvent(ctx, m))(t), fibertest.Sure(fiber.NewCondition(ctx, m, nil))(t),
		fibertest.Sure(fiber.NewBarrier(ctx, m, 1))(t), 0}
}

// use uses one of each type, and gives what each said.
func (e everything) use(ctx context.Context) map[string]error {
	said := map[string]error{}
	_, said["Dict"] = e.Dict.Update(ctx, "n", func(n int, _ bool) (int, error) { return n + 1, nil })
	said["List"] = e.List.Append(ctx, 1)
	said["Namespace"] = e.Namespace.Set(ctx, "pid", os.Getpid())
	said["Value"] = e.Value.Set(ctx, 1)
	said["Array"] = e.Array.Set(ctx, 0, 1)
	said["Queue"] = e.Queue.Put(ctx, 1)
	_, said["Queue.Len"] = e.Queue.Len(ctx)
	said["JoinableQueue"] = e.Joinable.Join(ctx)
	said["JoinableQueue.Put"] = e.Joinable.Put(ctx, 1)
	if said["JoinableQueue.Put"] == nil {
		_, err := e.Joinable.Get(ctx)
		said["JoinableQueue.TaskDone"] = errors.Join(err, e.Joinable.TaskDone(ctx))
	} else {
		said["JoinableQueue.TaskDone"] = e.Joinable.TaskDone(ctx)
	}
	nothing := func(context.Context) error { return nil }
	said["Lock"] = e.Lock.With(ctx, nothing)
	said["RLock"] = e.RLock.With(ctx, nothing)
	took, err := e.RLock.TryAcquire(ctx)
	said["RLock.TryAcquire"] = err
	if took {
		said["RLock.Release"] = e.RLock.Release(ctx)
	}
	said["Semaphore"] = e.Semaphore.With(ctx, nothing)
	said["BoundedSemaphore"] = e.Bounded.With(ctx, nothing)
	said["Event"] = e.Event.Set(ctx)
	said["Event.Wait"] = e.Event.Wait(ctx)
	said["Condition"] = e.Condition.With(ctx, e.Condition.NotifyAll)
	_, said["Barrier"] = e.Barrier.Wait(ctx)
	return said
}

var useEverything = fiber.Register("useEverything", func(ctx context.Context, e everything) (fibertest.None, error) {
	if e.Deep--; e.Deep > 0 {
		pool, err := fiber.NewPool(1)
		if err != nil {
			return fibertest.None{}, err
		}
		defer pool.Close()
		return fiber.Apply(ctx, pool, useEverythingBelow, e)
	}
	for _, err := range e.use(ctx) {
		if err != nil {
			return fibertest.None{}, err
		}
	}
	return fibertest.None{}, nil
})

// useEverythingBelow is useEverything, which may not name itself.
var useEverythingBelow = fiber.Register("useEverythingBelow", func(ctx context.Context, e everything) (fibertest.None, error) {
	for name, err := range e.use(ctx) {
		if err != nil {
			return fibertest.None{}, errors.Join(errors.New(name), err)
		}
	}
	return fibertest.None{}, nil
})

func TestEverythingInNestedProcesses(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	e := newEverything(t, m)
	for name, err := range e.use(ctx) {
		require.NoError(t, err, name)
	}
	e.Deep = 2
	pool := fibertest.NewPool(t, 2)
	_, err := fiber.Map(ctx, pool, useEverything, []everything{e, e, e}, fiber.ChunkSize(1))
	require.NoError(t, err)
	require.Equal(t, 4, got(e.Dict.Get(ctx, "n"))(t))
	require.Equal(t, 5, fibertest.Sure(e.List.Len(ctx))(t))
	require.Equal(t, 4, fibertest.Sure(e.Queue.Len(ctx))(t))
}

// A manager that was closed, and one that was killed, say so and hang nobody.
func TestEndOfTheManager(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fiber.Manager){
		"closed": func(m *fiber.Manager) { require.NoError(t, m.Close()) },
		"killed": func(m *fiber.Manager) { require.NoError(t, syscall.Kill(m.PID(), syscall.SIGKILL)) },
		"told":   func(m *fiber.Manager) { require.NoError(t, syscall.Kill(m.PID(), syscall.SIGTERM)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
			e := newEverything(t, m)
			require.NoError(t, e.Lock.Acquire(ctx))
			require.NoError(t, e.Condition.Acquire(ctx))
			require.NoError(t, e.Semaphore.Acquire(ctx))
			barrier := fibertest.Sure(fiber.NewBarrier(ctx, m, 2))(t)
			waiting := map[string]func() error{
				"Lock":      func() error { return e.Lock.Acquire(ctx) },
				"Semaphore": func() error { return e.Semaphore.Acquire(ctx) },
				"Event":     func() error { return e.Event.Wait(ctx) },
				"Condition": func() error { return e.Condition.Wait(ctx) },
				"Barrier":   func() error { _, err := barrier.Wait(ctx); return err },
				"Queue":     func() error { _, err := e.Queue.Get(ctx); return err },
			}
			ended := map[string]chan error{}
			for name, wait := range waiting {
				c := make(chan error, 1)
				ended[name] = c
				go func() { c <- wait() }()
			}
			fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Sure(barrier.Waiting(ctx))(t) == 1 }, "it waits")
			end(m)
			check := func(what string, err error) {
				if name == "closed" {
					require.ErrorIs(t, err, fiber.ErrClosed, what)
					return
				}
				var lost *fiber.WorkerLostError
				require.ErrorAs(t, err, &lost, "%s: %v", what, err)
				require.NotErrorIs(t, err, fiber.ErrClosed, what)
				require.Equal(t, m.Name(), lost.Worker)
				require.Equal(t, m.ID(), lost.ID)
				require.Equal(t, map[string]string{"killed": "killed", "told": "terminated"}[name], lost.Signal)
			}
			for what, c := range ended {
				select {
				case err := <-c:
					check("waiting: "+what, err)
				case <-ctx.Done():
					t.Fatal(what, "hangs")
				}
			}
			for what, err := range e.use(ctx) {
				check(what, err)
			}
			_, err := fiber.NewLock(ctx, m)
			check("NewLock", err)
		})
	}
}

// Names of one type are refused by all others.
func TestNamesOfOtherTypes(t *testing.T) {
	t.Parallel()
	type name interface {
		MarshalBinary() ([]byte, error)
		UnmarshalBinary([]byte) error
	}
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	e := newEverything(t, m)
	all := []name{e.Dict, e.List, e.Namespace, e.Value, e.Array, e.Queue, e.Joinable, e.Lock, e.RLock, e.Semaphore,
		e.Bounded, e.Event, e.Condition, e.Barrier}
	for i, from := range all {
		b := fibertest.Sure(from.MarshalBinary())(t)
		for j, to := range all {
			err := to.UnmarshalBinary(b)
			if i == j {
				require.NoError(t, err)
				continue
			}
			var mismatch *fiber.MismatchError
			require.ErrorAs(t, err, &mismatch, "a %T as a %T", from, to)
		}
		require.Error(t, from.UnmarshalBinary([]byte("nonsense")))
		require.Error(t, from.UnmarshalBinary(b[:len(b)-1]))
	}
	for what, err := range e.use(ctx) {
		require.NoError(t, err, "after what failed: "+what)
	}

	// The right sort of object, and values of another type.
	var mismatch *fiber.MismatchError
	words := newDict[string, string](t, m)
	require.NoError(t, words.Set(ctx, "k", "word"))
	var ints fiber.Dict[string, int]
	require.NoError(t, ints.UnmarshalBinary(fibertest.Sure(words.MarshalBinary())(t)))
	_, _, err := ints.Get(ctx, "k")
	require.ErrorAs(t, err, &mismatch)
	_, err = ints.All(ctx)
	require.ErrorAs(t, err, &mismatch)
	_, err = ints.Update(ctx, "k", func(n int, _ bool) (int, error) { return n, nil })
	require.ErrorAs(t, err, &mismatch)
	require.Equal(t, "word", got(words.Get(ctx, "k"))(t))

	// As an argument: an Event where a Lock is wanted.
	pool := fibertest.NewPool(t, 1)
	list := newDict[string, *fiber.Event](t, m)
	require.NoError(t, list.Set(ctx, "e", e.Event))
	var locks fiber.Dict[string, *fiber.Lock]
	require.NoError(t, locks.UnmarshalBinary(fibertest.Sure(list.MarshalBinary())(t)))
	_, err = fiber.Apply(ctx, pool, takeLock, &locks)
	require.ErrorAs(t, err, &mismatch)
}

var takeLock = fiber.Register("takeLock", func(ctx context.Context, locks *fiber.Dict[string, *fiber.Lock]) (fibertest.None, error) {
	l, _, err := locks.Get(ctx, "e")
	if err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, l.Acquire(ctx)
})

type secret struct{ hidden int }

//fiber:ignore travels that is what is tested
func TestTypesThatCannotBeShared(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	var encode *fiber.EncodeError
	for name, make := range map[string]func() error{
		"NewDict":  func() error { _, err := fiber.NewDict[secret, int](ctx, m); return err },
		"NewList":  func() error { _, err := fiber.NewList[chan int](ctx, m); return err },
		"NewValue": func() error { _, err := fiber.NewValue(ctx, m, secret{1}); return err },
		"NewArray": func() error { _, err := fiber.NewArray[func()](ctx, m, nil); return err },
		"NewQueue": func() error { _, err := fiber.NewQueue[secret](ctx, m); return err },
	} {
		err := make()
		require.ErrorAs(t, err, &encode, name)
		require.ErrorContains(t, err, name)
	}
	d := newDict[string, any](t, m)
	require.ErrorAs(t, d.Set(ctx, "k", make(chan int)), &encode)
	require.Zero(t, fibertest.Sure(d.Len(ctx))(t))
	for n, make := range map[int]func(int) error{
		-1: func(n int) error { _, err := fiber.NewSemaphore(ctx, m, n); return err },
		0:  func(n int) error { _, err := fiber.NewBarrier(ctx, m, n); return err },
		-2: func(n int) error { _, err := fiber.NewBoundedSemaphore(ctx, m, n); return err },
	} {
		require.ErrorContains(t, make(n), strconv.Itoa(n))
	}
	_, err := fiber.NewBoundedSemaphore(ctx, m, 0)
	require.ErrorContains(t, err, "could never be acquired")
}

// Two objects that use managed ones in the manager's own process see copies,
// too.
type insider struct {
	values *fiber.Dict[string, []float64]
}

func (i *insider) Spoil(ctx context.Context, key string) (float64, error) {
	v, _, err := i.values.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	for k := range v {
		v[k] = -1
	}
	again, _, err := i.values.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	all, err := i.values.All(ctx)
	if err != nil {
		return 0, err
	}
	for _, v := range all {
		v[0] = -2
	}
	sum := 0.0
	for _, x := range again {
		sum += x
	}
	mine := make([]float64, len(v))
	if err := i.values.Set(ctx, "mine", mine); err != nil {
		return 0, err
	}
	mine[0] = -1e9
	stored, _, err := i.values.Get(ctx, "mine")
	if err != nil {
		return 0, err
	}
	return sum + stored[0], i.values.Set(ctx, "mine", mine)
}

var (
	insiders = fiber.RegisterType("insider", func(_ context.Context, d *fiber.Dict[string, []float64]) (*insider, error) {
		return &insider{d}, nil
	})
	spoil = fiber.RegisterMethod("Spoil", (*insider).Spoil)
)

func TestCopiesInTheManagersProcess(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	for _, n := range []int{10, 100_000} { // in the first frame, and in one of its own
		d := newDict[string, []float64](t, m)
		v := make([]float64, n)
		for i := range v {
			v[i] = 1
		}
		require.NoError(t, d.Set(ctx, "v", v))
		p := fibertest.Sure(fiber.NewObject(ctx, m, insiders, d))(t)
		require.Equal(t, float64(n), fibertest.Sure(fiber.Call(ctx, p, spoil, "v"))(t))
		require.Equal(t, v, got(d.Get(ctx, "v"))(t))
	}
}
