//go:build unix

package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/transport"
)

func newQueue[T any](t testing.TB, opts ...fiber.QueueOption) *fiber.SimpleQueue[T] {
	t.Helper()
	q, err := fiber.NewSimpleQueue[T](opts...)
	require.NoError(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// parcel is an item that says where it comes from.
type parcel struct{ From, N int }

// sending is who puts how much into a queue.
type sending struct {
	Queue *fiber.SimpleQueue[parcel]
	From  int
	N     int
	Batch int // items in a call of PutMany; 0 for Put
}

// taking is who gets how much out of a queue.
type taking struct {
	Queue *fiber.SimpleQueue[parcel]
	N     int // -1: until it is closed
	Batch int // items in a call of GetMany; 0 for Get
}

var (
	sendParcels = fiber.Register("sendParcels", func(ctx context.Context, s sending) (none, error) {
		batch := make([]parcel, 0, max(1, s.Batch))
		for i := range s.N {
			batch = append(batch, parcel{s.From, i})
			var err error
			switch {
			case s.Batch == 0:
				err = s.Queue.Put(ctx, batch[0])
			case len(batch) == s.Batch || i == s.N-1:
				err = s.Queue.PutMany(ctx, batch)
			default:
				continue
			}
			if err != nil {
				return none{}, err
			}
			batch = batch[:0]
		}
		return none{}, nil
	})

	takeParcels = fiber.Register("takeParcels", func(ctx context.Context, w taking) ([]parcel, error) {
		return take(ctx, w)
	})
)

func take(ctx context.Context, w taking) (got []parcel, err error) {
	for len(got) < w.N || w.N < 0 {
		var items []parcel
		if w.Batch == 0 {
			var item parcel
			item, err = w.Queue.Get(ctx)
			items = []parcel{item}
		} else {
			items, err = w.Queue.GetMany(ctx, min(w.Batch, w.N-len(got)))
		}
		if errors.Is(err, fiber.ErrClosed) && w.N < 0 {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, items...)
	}
	return got, nil
}

// inOrder checks that each producer's items come in their order.
func inOrder(t testing.TB, got []parcel) {
	t.Helper()
	last := map[int]int{}
	for _, p := range got {
		before, seen := last[p.From]
		require.True(t, !seen || p.N > before, "item %d of %d comes behind %d", p.N, p.From, before)
		last[p.From] = p.N
	}
}

func TestQueueIsFIFOForEachProducer(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t)
	const producers, n = 3, 1000
	pool := newPool(t, producers+1)
	got := fiber.ApplyAsync(soon(t), pool, takeParcels, taking{q, producers * n, 0})
	outs := make([]sending, producers)
	for i := range outs {
		outs[i] = sending{q, i, n, []int{0, 7, 400}[i]}
	}
	_, err := fiber.Map(soon(t), pool, sendParcels, outs, fiber.ChunkSize(1))
	require.NoError(t, err)
	parcels, err := got.Get(soon(t))
	require.NoError(t, err)
	inOrder(t, parcels)
	require.Len(t, parcels, producers*n)
	require.Equal(t, producers*n, distinct(parcels))
}

func TestQueueInOneProcess(t *testing.T) {
	t.Parallel()
	q := newQueue[string](t)
	require.NoError(t, q.Put(soon(t), "a"))
	require.NoError(t, q.PutMany(soon(t), []string{"b", "c", "d"}))
	require.NoError(t, q.PutMany(soon(t), nil))
	n, err := q.Len(soon(t))
	require.NoError(t, err)
	require.Equal(t, 4, n)
	v, err := q.Get(soon(t))
	require.NoError(t, err)
	require.Equal(t, "a", v)
	vs, err := q.GetMany(soon(t), 2)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, vs)
	vs, err = q.GetMany(soon(t), 100)
	require.NoError(t, err)
	require.Equal(t, []string{"d"}, vs)
	_, err = q.GetMany(soon(t), 0)
	require.ErrorContains(t, err, "one item at least")
}

// holdQueue has a queue and does nothing with it until its context ends.
var holdQueue = fiber.Register("holdQueue", func(ctx context.Context, w taking) (none, error) {
	if _, err := w.Queue.Len(ctx); err != nil {
		return none{}, err
	}
	if err := w.Queue.Put(ctx, parcel{From: os.Getpid()}); err != nil {
		return none{}, err
	}
	<-ctx.Done()
	return none{}, ctx.Err()
})

func TestIdleHolderHoldsNothingBack(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t)
	idle := fiber.NewProcess(holdQueue, taking{Queue: q})
	begin(t, idle)
	up, err := q.Get(soon(t))
	require.NoError(t, err)
	require.Equal(t, idle.PID(), up.From)
	pool := newPool(t, 1)
	got := fiber.ApplyAsync(soon(t), pool, takeParcels, taking{Queue: q, N: 1000})
	for i := range 1000 {
		require.NoError(t, q.Put(soon(t), parcel{1, i}))
	}
	parcels, err := got.Get(soon(t))
	require.NoError(t, err, "the idle process has some")
	inOrder(t, parcels)
}

// takeOne gets one item, says so, and rests.
var takeOne = fiber.Register("takeOne", func(ctx context.Context, w [2]*fiber.SimpleQueue[parcel]) (none, error) {
	p, err := w[0].Get(ctx)
	if err == nil {
		err = w[1].Put(ctx, p)
	}
	if err != nil {
		return none{}, err
	}
	<-ctx.Done()
	return none{}, ctx.Err()
})

func TestSlowConsumerDoesNotHoard(t *testing.T) {
	t.Parallel()
	q, taken := newQueue[parcel](t), newQueue[parcel](t)
	const n = 1000
	slow := fiber.NewProcess(takeOne, [2]*fiber.SimpleQueue[parcel]{q, taken})
	begin(t, slow)
	for i := range n {
		require.NoError(t, q.Put(soon(t), parcel{0, i}))
	}
	first, err := taken.Get(soon(t))
	require.NoError(t, err)
	require.Zero(t, first.N)
	parcels, err := take(soon(t), taking{Queue: q, N: n - 1, Batch: 100})
	require.NoError(t, err, "the slow one has more than one")
	for i, p := range parcels {
		require.Equal(t, i+1, p.N)
	}
}

// The consumer is stopped while it waits in Get, is handed an item, and dies.
func TestItemOfAKilledConsumerGoesBackToTheFront(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t)
	p := fiber.NewProcess(takeParcels, taking{Queue: q, N: 1})
	begin(t, p)
	pid := p.PID()
	eventually(t, patience, func() bool {
		if !halt(pid) {
			return false
		}
		require.NoError(t, q.PutMany(soon(t), []parcel{{0, 0}, {0, 1}, {0, 2}}))
		n, err := q.Len(soon(t))
		require.NoError(t, err)
		if n == 3 { // it did not wait in Get yet
			_, err := q.GetMany(soon(t), 3)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		}
		return n == 2
	}, "the stopped process is handed an item")
	require.NoError(t, p.Kill())
	eventually(t, patience, func() bool {
		n, err := q.Len(soon(t))
		require.NoError(t, err)
		return n == 3
	}, "the item does not come back")
	got, err := take(soon(t), taking{Queue: q, N: 3})
	require.NoError(t, err)
	require.Equal(t, []parcel{{0, 0}, {0, 1}, {0, 2}}, got)
}

// halt stops a process that sleeps.
func halt(pid int) bool {
	syscall.Kill(pid, syscall.SIGSTOP)
	f := stat(pid)
	return len(f) > 0 && f[0] == "T"
}

func TestQueueWithCapacity(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t, fiber.WithCapacity(3))
	pool := newPool(t, 1)
	put := fiber.ApplyAsync(soon(t), pool, sendParcels, sending{q, 0, 10, 10})
	eventually(t, patience, func() bool { n, err := q.Len(soon(t)); return err == nil && n == 3 }, "it is full")
	select {
	case <-put.Done():
		require.Fail(t, "PutMany returned before all items had room")
	default:
	}
	ctx, cancel := context.WithTimeout(soon(t), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Put(ctx, parcel{1, 0}), context.DeadlineExceeded)
	got, err := take(soon(t), taking{Queue: q, N: 10})
	require.NoError(t, err)
	inOrder(t, got)
	_, err = put.Get(soon(t))
	require.NoError(t, err)
	n, err := q.Len(soon(t))
	require.NoError(t, err)
	require.Zero(t, n, "an item whose Put gave up is in the queue")

	_, err = fiber.NewSimpleQueue[int](fiber.WithCapacity(0))
	require.ErrorContains(t, err, "WithCapacity(0)")
}

// Producers in many processes never have more in a bounded queue than its
// capacity.
func TestCapacityHoldsForAll(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t, fiber.WithCapacity(5))
	pool := newPool(t, 3)
	var outs []*fiber.Future[none]
	for i := range 3 {
		outs = append(outs, fiber.ApplyAsync(soon(t), pool, sendParcels, sending{q, i, 100, i * 30}))
	}
	for range 300 {
		n, err := q.Len(soon(t))
		require.NoError(t, err)
		require.LessOrEqual(t, n, 5)
		_, err = q.Get(soon(t))
		require.NoError(t, err)
	}
	for _, out := range outs {
		_, err := out.Get(soon(t))
		require.NoError(t, err)
	}
}

func TestContextEndsAGet(t *testing.T) {
	t.Parallel()
	q := newQueue[int](t)
	ctx, cancel := context.WithTimeout(soon(t), 20*time.Millisecond)
	defer cancel()
	_, err := q.Get(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, q.Put(soon(t), 1))
	n, err := q.Len(soon(t))
	require.NoError(t, err)
	require.Equal(t, 1, n, "somebody who gave up got an item")
	ctx, cancel = context.WithCancel(soon(t))
	cancel()
	_, err = q.Get(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, q.Put(ctx, 2), context.Canceled)
	v, err := q.Get(soon(t))
	require.NoError(t, err)
	require.Equal(t, 1, v)
}

var keptQueue *fiber.SimpleQueue[parcel]

// queueOf makes a queue with items in its process and gives it away.
var queueOf = fiber.Register("queueOf", func(ctx context.Context, n int) (*fiber.SimpleQueue[parcel], error) {
	q, err := fiber.NewSimpleQueue[parcel]()
	if err != nil {
		return nil, err
	}
	keptQueue = q
	for i := range n {
		if err := q.Put(ctx, parcel{os.Getpid(), i}); err != nil {
			return nil, err
		}
	}
	return q, nil
})

// The home is stopped while it is asked, and answers when nobody waits any
// more: what it hands out then comes back.
func TestLateAnswerGivesTheItemBack(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1)
	q, err := fiber.Apply(soon(t), pool, queueOf, 3)
	require.NoError(t, err)
	pid, err := fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)
	n, err := q.Len(soon(t))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for range 3 {
		eventually(t, patience, func() bool { return halt(pid) }, "it is stopped")
		ctx, cancel := context.WithTimeout(soon(t), 50*time.Millisecond)
		_, err = q.Get(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		eventually(t, patience, func() bool { n, err := q.Len(soon(t)); return err == nil && n == 3 }, "the item is lost")
	}
	got, err := take(soon(t), taking{Queue: q, N: 3})
	require.NoError(t, err)
	require.Equal(t, []parcel{{pid, 0}, {pid, 1}, {pid, 2}}, got)
}

func TestCloseWakesEverybody(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t, fiber.WithCapacity(1))
	require.NoError(t, q.Put(soon(t), parcel{}))
	pool := newPool(t, 2)
	put := fiber.ApplyAsync(soon(t), pool, sendParcels, sending{q, 0, 10, 0})
	here := make(chan error, 1)
	go func() { here <- q.Put(soon(t), parcel{}) }()
	eventually(t, patience, func() bool { return pool.Stats().Running == 1 }, "it runs")
	empty := newQueue[parcel](t)
	got := fiber.ApplyAsync(soon(t), pool, takeParcels, taking{Queue: empty, N: 1})
	getting := make(chan error, 1)
	go func() { _, err := empty.Get(soon(t)); getting <- err }()
	eventually(t, patience, func() bool { return pool.Stats().Running == 2 }, "it runs")
	for range 2 {
		require.NoError(t, q.Close())
		require.NoError(t, empty.Close())
	}
	_, err := put.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = got.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.ErrorIs(t, <-here, fiber.ErrClosed)
	require.ErrorIs(t, <-getting, fiber.ErrClosed)
	left, err := q.GetMany(soon(t), 3)
	require.NoError(t, err)
	require.Len(t, left, 1, "what was in it is still to be got")
	_, err = q.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.ErrorIs(t, q.Put(soon(t), parcel{}), fiber.ErrClosed)
	require.ErrorIs(t, q.PutMany(soon(t), make([]parcel, 3)), fiber.ErrClosed)
	_, err = q.GetMany(soon(t), 3)
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = q.Len(soon(t))
	require.NoError(t, err)
}

// closeQueue closes a queue of another process's.
var closeQueue = fiber.Register("closeQueue", func(_ context.Context, w taking) (none, error) {
	return none{}, errors.Join(w.Queue.Close(), w.Queue.Close())
})

func TestAnyProcessMayCloseAQueue(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(soon(t)); waiting <- err }()
	_, err := fiber.Apply(soon(t), newPool(t, 1), closeQueue, taking{Queue: q})
	require.NoError(t, err)
	require.ErrorIs(t, <-waiting, fiber.ErrClosed)
}

func TestZeroQueue(t *testing.T) {
	t.Parallel()
	var q *fiber.SimpleQueue[int]
	_, err := q.Get(soon(t))
	require.ErrorContains(t, err, "uninitialised")
	q = new(fiber.SimpleQueue[int])
	require.ErrorContains(t, q.Put(soon(t), 1), "uninitialised")
	require.Error(t, q.Close())
	_, err = q.Len(soon(t))
	require.Error(t, err)
	_, err = fiber.Apply(soon(t), newPool(t, 1), takeParcels, taking{Queue: new(fiber.SimpleQueue[parcel])})
	var encode *fiber.EncodeError
	require.ErrorAs(t, err, &encode)
	_, err = fiber.NewSimpleQueue[chan int]()
	require.ErrorAs(t, err, &encode)
}

// answering gets queues out of a queue and puts its process's id into each.
var answering = fiber.Register("answering", func(ctx context.Context, qs *fiber.SimpleQueue[*fiber.SimpleQueue[int]]) (int, error) {
	for n := 0; ; n++ {
		q, err := qs.Get(ctx)
		if errors.Is(err, fiber.ErrClosed) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if err := q.Put(ctx, os.Getpid()); err != nil {
			return n, err
		}
	}
})

func TestQueueAsItemOfAQueue(t *testing.T) {
	t.Parallel()
	qs := newQueue[*fiber.SimpleQueue[int]](t)
	p := fiber.NewProcess(answering, qs)
	begin(t, p)
	for range 20 {
		q := newQueue[int](t)
		require.NoError(t, qs.Put(soon(t), q))
		pid, err := q.Get(soon(t))
		require.NoError(t, err)
		require.Equal(t, p.PID(), pid)
	}
	require.NoError(t, qs.Close())
	require.NoError(t, p.Join(soon(t)))
}

// An item keeps what it names, when nobody else does.
func TestItemKeepsItsQueue(t *testing.T) {
	t.Parallel()
	qs := newQueue[*fiber.SimpleQueue[int]](t)
	func() {
		q, err := fiber.NewSimpleQueue[int]()
		require.NoError(t, err)
		require.NoError(t, q.Put(soon(t), 42))
		require.NoError(t, qs.Put(soon(t), q))
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run
	}
	q, err := qs.Get(soon(t))
	require.NoError(t, err)
	v, err := q.Get(soon(t))
	require.NoError(t, err)
	require.Equal(t, 42, v)
}

// What is named in a value is known, so that whoever keeps the value holds it.
func TestValuesNameWhatTravels(t *testing.T) {
	t.Parallel()
	q := newQueue[int](t)
	a, b := newPipe[int](t)
	n, err := fiber.RefsIn(struct {
		Qs   []*fiber.SimpleQueue[int]
		Ends map[string]ends
		None *fiber.SimpleQueue[int]
	}{[]*fiber.SimpleQueue[int]{q, q}, map[string]ends{"here": {a, b}}, nil})
	require.NoError(t, err)
	require.Equal(t, 4, n)
	n, err = fiber.RefsIn("nothing")
	require.NoError(t, err)
	require.Zero(t, n)
}

// A queue that is in itself is closed by somebody who has it no other way.
func TestQueueInItself(t *testing.T) {
	t.Parallel()
	type knot struct{ Self *fiber.SimpleQueue[knot] }
	q := newQueue[knot](t)
	require.NoError(t, q.Put(soon(t), knot{q}))
	k, err := q.Get(soon(t))
	require.NoError(t, err)
	require.NoError(t, q.Put(soon(t), k))
	require.NoError(t, k.Self.Close())
	_, err = q.Get(soon(t))
	require.NoError(t, err)
	_, err = q.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

// relaying has a process of its own take a queue's items, and puts what it got
// into another.
var relaying = fiber.Register("relaying", func(ctx context.Context, w [2]taking) (none, error) {
	inner, err := fiber.NewSimpleQueue[parcel]()
	if err != nil {
		return none{}, err
	}
	p := fiber.NewProcess(moving, [2]taking{w[0], {Queue: inner}})
	if err := p.Start(ctx); err != nil {
		return none{}, err
	}
	for range w[0].N {
		item, err := inner.Get(ctx)
		if err == nil {
			err = w[1].Queue.Put(ctx, item)
		}
		if err != nil {
			return none{}, err
		}
	}
	return none{}, p.Join(ctx)
})

var moving = fiber.Register("moving", func(ctx context.Context, w [2]taking) (none, error) {
	for range w[0].N {
		item, err := w[0].Queue.Get(ctx)
		if err == nil {
			err = w[1].Queue.Put(ctx, item)
		}
		if err != nil {
			return none{}, err
		}
	}
	return none{}, nil
})

func TestQueuesOfNestedProcesses(t *testing.T) {
	t.Parallel()
	in, out := newQueue[parcel](t), newQueue[parcel](t)
	p := fiber.NewProcess(relaying, [2]taking{{Queue: in, N: 100}, {Queue: out}})
	begin(t, p)
	for i := range 100 {
		require.NoError(t, in.Put(soon(t), parcel{0, i}))
	}
	got, err := take(soon(t), taking{Queue: out, N: 100})
	require.NoError(t, err)
	for i, item := range got {
		require.Equal(t, i, item.N)
	}
	require.NoError(t, p.Join(soon(t)))
}

// A queue's home is killed: waiting and later calls say so, here and in a
// process that is not its parent.
func TestQueueOfAKilledProcess(t *testing.T) {
	t.Parallel()
	home, other := newPool(t, 1), newPool(t, 1)
	q, err := fiber.Apply(soon(t), home, queueOf, 0)
	require.NoError(t, err)
	pid, err := fiber.Apply(soon(t), home, getpid, none{})
	require.NoError(t, err)
	_, err = q.Len(soon(t))
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(soon(t)); waiting <- err }()
	elsewhere := fiber.ApplyAsync(soon(t), other, takeParcels, taking{Queue: q, N: 1})
	eventually(t, patience, func() bool { return other.Stats().Running == 1 }, "it runs")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, <-waiting, &lost)
	_, err = elsewhere.Get(soon(t))
	require.ErrorAs(t, err, &lost)
	_, err = q.Get(soon(t))
	require.ErrorAs(t, err, &lost)
	require.ErrorAs(t, q.Put(soon(t), parcel{}), &lost)
	require.ErrorAs(t, q.PutMany(soon(t), make([]parcel, 2)), &lost)
	_, err = q.Len(soon(t))
	require.ErrorAs(t, err, &lost)
}

func TestQueueOfAProcessThatHasEnded(t *testing.T) {
	t.Parallel()
	home, err := fiber.NewPool(1)
	require.NoError(t, err)
	defer home.Close()
	q, err := fiber.Apply(soon(t), home, queueOf, 1)
	require.NoError(t, err)
	_, err = q.Get(soon(t))
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(soon(t)); waiting <- err }()
	lost := func(err error) {
		t.Helper()
		require.ErrorAs(t, err, new(*fiber.WorkerLostError))
		require.NotErrorIs(t, err, fiber.ErrClosed, "nobody has closed the queue")
	}
	closeSoon(t, home)
	lost(<-waiting)
	_, err = q.Get(soon(t))
	lost(err)
	lost(q.Put(soon(t), parcel{}))
	_, err = q.Len(soon(t))
	lost(err)
	lost(q.Close())
}

func TestQueueOfAnotherType(t *testing.T) {
	t.Parallel()
	numbers := newQueue[int](t)
	name, err := numbers.MarshalBinary()
	require.NoError(t, err)
	var texts fiber.SimpleQueue[string]
	require.NoError(t, texts.UnmarshalBinary(name))
	require.NoError(t, numbers.Put(soon(t), 7))
	_, err = texts.Get(soon(t))
	var mismatch *fiber.MismatchError
	require.ErrorAs(t, err, &mismatch)
	v, err := numbers.Get(soon(t))
	require.NoError(t, err, "the item was lost")
	require.Equal(t, 7, v)
	require.Error(t, texts.UnmarshalBinary([]byte("nonsense")))
}

var _ = mainProgram("large items", func(ctx context.Context) error {
	q, err := fiber.NewSimpleQueue[[]byte](fiber.WithCapacity(4))
	if err != nil {
		return err
	}
	var size *transport.SizeError
	large := make([]byte, 1<<20)
	for _, err := range []error{q.Put(ctx, large), q.PutMany(ctx, [][]byte{nil, large})} {
		if !errors.As(err, &size) || !strings.Contains(err.Error(), "max_message") {
			return fmt.Errorf("a large item gives %w", err)
		}
	}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := fiber.Apply(ctx, pool, putLarge, q); !errors.Is(err, errLarge) {
		return fmt.Errorf("a large item of a child's gives %w", err)
	}
	if n, err := q.Len(ctx); n != 0 || err != nil {
		return fmt.Errorf("%d items, %w", n, err)
	}
	// Items that fit, each alone.
	many := [][]byte{large[:50<<10], large[:50<<10], large[:50<<10], large[:50<<10]}
	if err := q.PutMany(ctx, many); err != nil {
		return err
	}
	got, err := fiber.Apply(ctx, pool, getLarge, q)
	if err != nil || got != 4*50<<10 {
		return fmt.Errorf("%d bytes, %w", got, err)
	}
	fmt.Println("fine")
	return nil
})

var errLarge = fiber.RegisterError(errors.New("it is too large"))

var (
	putLarge = fiber.Register("putLarge", func(ctx context.Context, q *fiber.SimpleQueue[[]byte]) (none, error) {
		var size *transport.SizeError
		if err := q.Put(ctx, make([]byte, 1<<20)); errors.As(err, &size) {
			return none{}, errLarge
		}
		return none{}, nil
	})

	getLarge = fiber.Register("getLarge", func(ctx context.Context, q *fiber.SimpleQueue[[]byte]) (n int, err error) {
		for range 4 {
			got, err := q.GetMany(ctx, 4)
			if err != nil {
				return n, err
			}
			for _, b := range got {
				n += len(b)
			}
			if n == 4*50<<10 {
				break
			}
		}
		return n, nil
	})
)

func TestLargeItems(t *testing.T) {
	t.Parallel()
	x := start(t, "large items", "FIBER_MAX_MESSAGE=64KiB")
	require.Equal(t, 0, x.wait(patience))
	require.Equal(t, "fine\n", x.out.String())
}

// Four readers share what there is: all of it comes, and nobody who asks goes
// without.
func TestQueueBalance(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t)
	pool := newPool(t, 4)
	warm(t, pool)
	var outs []*fiber.Future[[]parcel]
	for range 4 {
		outs = append(outs, fiber.ApplyAsync(soon(t), pool, takeParcels, taking{Queue: q, N: 600}))
	}
	for i := range 2400 {
		require.NoError(t, q.Put(soon(t), parcel{0, i}))
	}
	var all []parcel
	for _, out := range outs {
		got, err := out.Get(soon(t))
		require.NoError(t, err)
		inOrder(t, got)
		all = append(all, got...)
	}
	require.Equal(t, 2400, distinct(all))
}

func TestManyGoroutinesPutAtOnce(t *testing.T) {
	t.Parallel()
	q := newQueue[parcel](t)
	pool := newPool(t, 1)
	putting := fiber.ApplyAsync(soon(t), pool, sendAtOnce, sending{q, 0, 2000, 50})
	got, err := take(soon(t), taking{Queue: q, N: 2000, Batch: 100})
	require.NoError(t, err)
	inOrder(t, got)
	require.Equal(t, 2000, distinct(got))
	_, err = putting.Get(soon(t))
	require.NoError(t, err)
}

// sendAtOnce has Batch goroutines put N items.
var sendAtOnce = fiber.Register("sendAtOnce", func(ctx context.Context, s sending) (none, error) {
	var wg sync.WaitGroup
	errs := make([]error, s.Batch)
	for g := range s.Batch {
		wg.Go(func() {
			for i := 0; i < s.N/s.Batch && errs[g] == nil; i++ {
				errs[g] = s.Queue.Put(ctx, parcel{g, i})
			}
		})
	}
	wg.Wait()
	return none{}, errors.Join(errs...)
})

// A program makes many queues, with something in them, and drops them.
var _ = mainProgram("dropped queues", func(ctx context.Context) error {
	const n, size = 1000, 100 << 10
	if _, err := filledQueues(ctx, 1, size); err != nil {
		return err
	}
	before := consumes()
	qs, err := filledQueues(ctx, n, size)
	if err != nil {
		return err
	}
	if during := consumes(); during.heap < n*size {
		return fmt.Errorf("the queues' items take %d bytes", during.heap)
	}
	runtime.KeepAlive(qs)
	for {
		now := consumes()
		if now.heap < before.heap+n*size/10 && now.goroutines <= before.goroutines+5 && now.files <= before.files {
			fmt.Println("back")
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("before %+v, now %+v", before, now)
		case <-time.After(50 * time.Millisecond):
		}
	}
})

// filledQueues makes queues with an item of so many bytes in each.
func filledQueues(ctx context.Context, n, size int) (qs []*fiber.SimpleQueue[[]byte], err error) {
	for range n {
		q, err := fiber.NewSimpleQueue[[]byte]()
		if err != nil {
			return nil, err
		}
		if err := q.Put(ctx, make([]byte, size)); err != nil {
			return nil, err
		}
		qs = append(qs, q)
	}
	return qs, nil
}

type consumption struct {
	heap              uint64
	goroutines, files int
}

func consumes() consumption {
	runtime.GC()
	runtime.GC() // what cleanups have let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return consumption{m.HeapAlloc, runtime.NumGoroutine(), len(openFiles())}
}

func TestDroppedQueues(t *testing.T) {
	t.Parallel()
	x := start(t, "dropped queues")
	require.Equal(t, 0, x.wait(patience)) // they live for some seconds more
	require.Equal(t, "back\n", x.out.String())
}
