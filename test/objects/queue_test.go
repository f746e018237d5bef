//go:build unix

package objects_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

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
	sendParcels = fiber.Register("sendParcels", func(ctx context.Context, s sending) (fibertest.None, error) {
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
				return fibertest.None{}, err
			}
			batch = batch[:0]
		}
		return fibertest.None{}, nil
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
	q := fibertest.NewQueue[parcel](t)
	const producers, n = 3, 1000
	pool := fibertest.NewPool(t, producers+1)
	got := fiber.ApplyAsync(fibertest.Soon(t), pool, takeParcels, taking{q, producers * n, 0})
	outs := make([]sending, producers)
	for i := range outs {
		outs[i] = sending{q, i, n, []int{0, 7, 400}[i]}
	}
	_, err := fiber.Map(fibertest.Soon(t), pool, sendParcels, outs, fiber.ChunkSize(1))
	require.NoError(t, err)
	parcels, err := got.Get(fibertest.Soon(t))
	require.NoError(t, err)
	inOrder(t, parcels)
	require.Len(t, parcels, producers*n)
	require.Equal(t, producers*n, fibertest.Distinct(parcels))
}

func TestQueueInOneProcess(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[string](t)
	require.NoError(t, q.Put(fibertest.Soon(t), "a"))
	require.NoError(t, q.PutMany(fibertest.Soon(t), []string{"b", "c", "d"}))
	require.NoError(t, q.PutMany(fibertest.Soon(t), nil))
	n, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 4, n)
	v, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, "a", v)
	vs, err := q.GetMany(fibertest.Soon(t), 2)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "c"}, vs)
	vs, err = q.GetMany(fibertest.Soon(t), 100)
	require.NoError(t, err)
	require.Equal(t, []string{"d"}, vs)
	_, err = q.GetMany(fibertest.Soon(t), 0)
	require.ErrorContains(t, err, "at least 1")
}

// holdQueue has a queue and does nothing with it until its context ends.
var holdQueue = fiber.Register("holdQueue", func(ctx context.Context, w taking) (fibertest.None, error) {
	if _, err := w.Queue.Len(ctx); err != nil {
		return fibertest.None{}, err
	}
	if err := w.Queue.Put(ctx, parcel{From: os.Getpid()}); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	return fibertest.None{}, ctx.Err()
})

func TestIdleHolderHoldsNothingBack(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t)
	idle := fiber.NewProcess(holdQueue, taking{Queue: q})
	fibertest.Begin(t, idle)
	up, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, idle.PID(), up.From)
	pool := fibertest.NewPool(t, 1)
	got := fiber.ApplyAsync(fibertest.Soon(t), pool, takeParcels, taking{Queue: q, N: 1000})
	for i := range 1000 {
		require.NoError(t, q.Put(fibertest.Soon(t), parcel{1, i}))
	}
	parcels, err := got.Get(fibertest.Soon(t))
	require.NoError(t, err, "the idle process has some")
	inOrder(t, parcels)
}

// takeOne gets one item, says so, and rests.
var takeOne = fiber.Register("takeOne", func(ctx context.Context, w [2]*fiber.SimpleQueue[parcel]) (fibertest.None, error) {
	p, err := w[0].Get(ctx)
	if err == nil {
		err = w[1].Put(ctx, p)
	}
	if err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	return fibertest.None{}, ctx.Err()
})

func TestSlowConsumerDoesNotHoard(t *testing.T) {
	t.Parallel()
	q, taken := fibertest.NewQueue[parcel](t), fibertest.NewQueue[parcel](t)
	const n = 1000
	slow := fiber.NewProcess(takeOne, [2]*fiber.SimpleQueue[parcel]{q, taken})
	fibertest.Begin(t, slow)
	for i := range n {
		require.NoError(t, q.Put(fibertest.Soon(t), parcel{0, i}))
	}
	first, err := taken.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Zero(t, first.N)
	parcels, err := take(fibertest.Soon(t), taking{Queue: q, N: n - 1, Batch: 100})
	require.NoError(t, err, "the slow one has more than one")
	for i, p := range parcels {
		require.Equal(t, i+1, p.N)
	}
}

// The consumer is stopped while it waits in Get, is handed an item, and dies.
func TestItemOfAKilledConsumerGoesBackToTheFront(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t)
	p := fiber.NewProcess(takeParcels, taking{Queue: q, N: 1})
	fibertest.Begin(t, p)
	pid := p.PID()
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		if !halt(pid) {
			return false
		}
		require.NoError(t, q.PutMany(fibertest.Soon(t), []parcel{{0, 0}, {0, 1}, {0, 2}}))
		n, err := q.Len(fibertest.Soon(t))
		require.NoError(t, err)
		if n == 3 { // it did not wait in Get yet
			_, err := q.GetMany(fibertest.Soon(t), 3)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		}
		return n == 2
	}, "the stopped process is handed an item")
	require.NoError(t, p.Kill())
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		n, err := q.Len(fibertest.Soon(t))
		require.NoError(t, err)
		return n == 3
	}, "the item does not come back")
	got, err := take(fibertest.Soon(t), taking{Queue: q, N: 3})
	require.NoError(t, err)
	require.Equal(t, []parcel{{0, 0}, {0, 1}, {0, 2}}, got)
}

// halt stops a process that sleeps.
func halt(pid int) bool {
	syscall.Kill(pid, syscall.SIGSTOP)
	f := fibertest.Stat(pid)
	return len(f) > 0 && f[0] == "T"
}

func TestQueueWithCapacity(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t, fiber.WithCapacity(3))
	pool := fibertest.NewPool(t, 1)
	put := fiber.ApplyAsync(fibertest.Soon(t), pool, sendParcels, sending{q, 0, 10, 10})
	fibertest.Eventually(t, fibertest.Patience, func() bool { n, err := q.Len(fibertest.Soon(t)); return err == nil && n == 3 }, "it is full")
	select {
	case <-put.Done():
		require.Fail(t, "PutMany returned before all items had room")
	default:
	}
	ctx, cancel := context.WithTimeout(fibertest.Soon(t), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Put(ctx, parcel{1, 0}), context.DeadlineExceeded)
	got, err := take(fibertest.Soon(t), taking{Queue: q, N: 10})
	require.NoError(t, err)
	inOrder(t, got)
	_, err = put.Get(fibertest.Soon(t))
	require.NoError(t, err)
	n, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.Zero(t, n, "an item whose Put gave up is in the queue")

	_, err = fiber.NewSimpleQueue[int](fiber.WithCapacity(0))
	require.ErrorContains(t, err, "WithCapacity(0)")
}

// Producers in many processes never have more in a bounded queue than its
// capacity.
func TestCapacityHoldsForAll(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t, fiber.WithCapacity(5))
	pool := fibertest.NewPool(t, 3)
	var outs []*fiber.Future[fibertest.None]
	for i := range 3 {
		outs = append(outs, fiber.ApplyAsync(fibertest.Soon(t), pool, sendParcels, sending{q, i, 100, i * 30}))
	}
	for range 300 {
		n, err := q.Len(fibertest.Soon(t))
		require.NoError(t, err)
		require.LessOrEqual(t, n, 5)
		_, err = q.Get(fibertest.Soon(t))
		require.NoError(t, err)
	}
	for _, out := range outs {
		_, err := out.Get(fibertest.Soon(t))
		require.NoError(t, err)
	}
}

func TestContextEndsAGet(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[int](t)
	ctx, cancel := context.WithTimeout(fibertest.Soon(t), 20*time.Millisecond)
	defer cancel()
	_, err := q.Get(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, q.Put(fibertest.Soon(t), 1))
	n, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 1, n, "somebody who gave up got an item")
	ctx, cancel = context.WithCancel(fibertest.Soon(t))
	cancel()
	_, err = q.Get(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, q.Put(ctx, 2), context.Canceled)
	v, err := q.Get(fibertest.Soon(t))
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
	pool := fibertest.NewPool(t, 1)
	q, err := fiber.Apply(fibertest.Soon(t), pool, queueOf, 3)
	require.NoError(t, err)
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	n, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for range 3 {
		fibertest.Eventually(t, fibertest.Patience, func() bool { return halt(pid) }, "it is stopped")
		ctx, cancel := context.WithTimeout(fibertest.Soon(t), 50*time.Millisecond)
		_, err = q.Get(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
		fibertest.Eventually(t, fibertest.Patience, func() bool { n, err := q.Len(fibertest.Soon(t)); return err == nil && n == 3 }, "the item is lost")
	}
	got, err := take(fibertest.Soon(t), taking{Queue: q, N: 3})
	require.NoError(t, err)
	require.Equal(t, []parcel{{pid, 0}, {pid, 1}, {pid, 2}}, got)
}

func TestCloseWakesEverybody(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t, fiber.WithCapacity(1))
	require.NoError(t, q.Put(fibertest.Soon(t), parcel{}))
	pool := fibertest.NewPool(t, 2)
	put := fiber.ApplyAsync(fibertest.Soon(t), pool, sendParcels, sending{q, 0, 10, 0})
	here := make(chan error, 1)
	go func() { here <- q.Put(fibertest.Soon(t), parcel{}) }()
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Running == 1 }, "it runs")
	empty := fibertest.NewQueue[parcel](t)
	got := fiber.ApplyAsync(fibertest.Soon(t), pool, takeParcels, taking{Queue: empty, N: 1})
	getting := make(chan error, 1)
	go func() { _, err := empty.Get(fibertest.Soon(t)); getting <- err }()
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Running == 2 }, "it runs")
	for range 2 {
		require.NoError(t, q.Close())
		require.NoError(t, empty.Close())
	}
	_, err := put.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = got.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.ErrorIs(t, <-here, fiber.ErrClosed)
	require.ErrorIs(t, <-getting, fiber.ErrClosed)
	left, err := q.GetMany(fibertest.Soon(t), 3)
	require.NoError(t, err)
	require.Len(t, left, 1, "what was in it is still to be got")
	_, err = q.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.ErrorIs(t, q.Put(fibertest.Soon(t), parcel{}), fiber.ErrClosed)
	require.ErrorIs(t, q.PutMany(fibertest.Soon(t), make([]parcel, 3)), fiber.ErrClosed)
	_, err = q.GetMany(fibertest.Soon(t), 3)
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = q.Len(fibertest.Soon(t))
	require.NoError(t, err)
}

// closeQueue closes a queue of another process's.
var closeQueue = fiber.Register("closeQueue", func(_ context.Context, w taking) (fibertest.None, error) {
	return fibertest.None{}, errors.Join(w.Queue.Close(), w.Queue.Close())
})

func TestAnyProcessMayCloseAQueue(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(fibertest.Soon(t)); waiting <- err }()
	_, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), closeQueue, taking{Queue: q})
	require.NoError(t, err)
	require.ErrorIs(t, <-waiting, fiber.ErrClosed)
}

func TestZeroQueue(t *testing.T) {
	t.Parallel()
	var q *fiber.SimpleQueue[int]
	_, err := q.Get(fibertest.Soon(t))
	require.ErrorContains(t, err, "uninitialised")
	q = new(fiber.SimpleQueue[int])
	require.ErrorContains(t, q.Put(fibertest.Soon(t), 1), "uninitialised")
	require.Error(t, q.Close())
	_, err = q.Len(fibertest.Soon(t))
	require.Error(t, err)
	_, err = fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), takeParcels, taking{Queue: new(fiber.SimpleQueue[parcel])})
	var encode *fiber.EncodeError
	require.ErrorAs(t, err, &encode)
	_, err = fiber.NewSimpleQueue[chan int]() //fiber:ignore travels that is what is tested
	require.ErrorAs(t, err, &encode)
}

// Four readers share what there is: all of it comes, and nobody who asks goes
// without.
func TestQueueBalance(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t)
	pool := fibertest.NewPool(t, 4)
	fibertest.Warm(t, pool)
	var outs []*fiber.Future[[]parcel]
	for range 4 {
		outs = append(outs, fiber.ApplyAsync(fibertest.Soon(t), pool, takeParcels, taking{Queue: q, N: 600}))
	}
	for i := range 2400 {
		require.NoError(t, q.Put(fibertest.Soon(t), parcel{0, i}))
	}
	var all []parcel
	for _, out := range outs {
		got, err := out.Get(fibertest.Soon(t))
		require.NoError(t, err)
		inOrder(t, got)
		all = append(all, got...)
	}
	require.Equal(t, 2400, fibertest.Distinct(all))
}

func TestManyGoroutinesPutAtOnce(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[parcel](t)
	pool := fibertest.NewPool(t, 1)
	putting := fiber.ApplyAsync(fibertest.Soon(t), pool, sendAtOnce, sending{q, 0, 2000, 50})
	got, err := take(fibertest.Soon(t), taking{Queue: q, N: 2000, Batch: 100})
	require.NoError(t, err)
	inOrder(t, got)
	require.Equal(t, 2000, fibertest.Distinct(got))
	_, err = putting.Get(fibertest.Soon(t))
	require.NoError(t, err)
}

// sendAtOnce has Batch goroutines put N items.
var sendAtOnce = fiber.Register("sendAtOnce", func(ctx context.Context, s sending) (fibertest.None, error) {
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
	return fibertest.None{}, errors.Join(errs...)
})

// keepQueue makes a queue, and sends it.
var keepQueue = fiber.Register("keepQueue", func(ctx context.Context, to *fiber.SimpleQueue[*fiber.SimpleQueue[int]]) (fibertest.None, error) {
	q, err := fiber.NewSimpleQueue[int]()
	if err == nil {
		err = to.Put(ctx, q)
	}
	<-ctx.Done()
	runtime.KeepAlive(q)
	return fibertest.None{}, err
})

// atStoppedQueue is a queue whose home does not move until it is told to.
func atStoppedQueue(t *testing.T) (q *fiber.SimpleQueue[int], move func()) {
	t.Helper()
	to := fibertest.NewQueue[*fiber.SimpleQueue[int]](t)
	p := fiber.NewProcess(keepQueue, to)
	fibertest.Begin(t, p)
	q, err := to.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, q.Put(fibertest.Soon(t), 0)) // it is reached
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Stat(p.PID())[0] == "T" }, "it does not stop")
	return q, func() { require.NoError(t, syscall.Kill(p.PID(), syscall.SIGCONT)) }
}

// A Put that ends before its item has left leaves nothing behind, and one that
// ends later says that it does not know.
func TestPutsThatEndWhileTheHomeIsStopped(t *testing.T) {
	t.Parallel()
	q, move := atStoppedQueue(t)
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	ended := make(chan error)
	const n = 100
	for i := range n {
		go func() { ended <- q.Put(ctx, 1+i) }()
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	unknown := 0
	for range n {
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		if errors.Is(err, fiber.ErrUnknownOutcome) {
			unknown++
		}
	}
	require.LessOrEqual(t, unknown, 1)
	move()
	require.NoError(t, q.Put(fibertest.Soon(t), n))
	there, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.LessOrEqual(t, there, 2+unknown)
}

// Close waits for a stopped home for a while, and is carried out later.
func TestCloseWhileTheHomeIsStopped(t *testing.T) {
	t.Parallel()
	q, move := atStoppedQueue(t)
	require.ErrorIs(t, q.Close(), fiber.ErrUnknownOutcome)
	move()
	require.ErrorIs(t, q.Put(fibertest.Soon(t), 1), fiber.ErrClosed)
	require.NoError(t, q.Close())
}

// fragile is an item of which some cannot be decoded.
type fragile string

func (f fragile) MarshalBinary() ([]byte, error) { return []byte(f), nil }

func (f *fragile) UnmarshalBinary(b []byte) error {
	switch string(b) {
	case "error":
		return errors.New("it is broken")
	case "panic":
		panic("it is broken")
	case "goexit":
		runtime.Goexit()
	}
	*f = fragile(b)
	return nil
}

// An item that cannot be decoded fails the Get that takes it, and no other.
func TestItemsThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	q, err := fiber.NewJoinableQueue[fragile](ctx, fibertest.NewManager(t))
	require.NoError(t, err)
	bad := func(_ any, err error) {
		t.Helper()
		require.ErrorAs(t, err, new(*fiber.MismatchError))
	}
	for _, how := range []fragile{"error", "panic", "goexit"} {
		require.NoError(t, q.PutMany(ctx, []fragile{how, "a", "b", how, "c"}))
		bad(q.Get(ctx))
		require.Equal(t, fragile("a"), fibertest.Sure(q.Get(ctx))(t))
		require.Equal(t, []fragile{"b"}, fibertest.Sure(q.GetMany(ctx, 10))(t))
		bad(q.GetMany(ctx, 10))
		require.Equal(t, []fragile{"c"}, fibertest.Sure(q.GetMany(ctx, 10))(t))
		for range 3 {
			require.NoError(t, q.TaskDone(ctx))
		}
		require.NoError(t, q.Join(ctx), "what cannot be decoded is done")
	}
	require.NoError(t, q.Put(ctx, "error"))
	require.NoError(t, q.Close())
	bad(q.Get(ctx))
	_, err = q.Get(ctx)
	require.ErrorIs(t, err, fiber.ErrClosed)
}
