//go:build unix

package objects_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func newCondition(t testing.TB, m *fiber.Manager) *fiber.Condition {
	t.Helper()
	return fibertest.Sure(fiber.NewCondition(fibertest.Soon(t), m, nil))(t)
}

// copyOf is another proxy of the same condition.
func copyOf(t testing.TB, c *fiber.Condition) *fiber.Condition {
	t.Helper()
	other := new(fiber.Condition)
	require.NoError(t, other.UnmarshalBinary(fibertest.Sure(c.MarshalBinary())(t)))
	return other
}

// asleep has n goroutines wait for a condition, each through a proxy of its
// own, and gives what each of them is told. It returns when all sleep.
func asleep(t testing.TB, ctx context.Context, c *fiber.Condition, n int) []chan error {
	t.Helper()
	told := make([]chan error, n)
	for i := range told {
		told[i] = make(chan error, 1)
		mine := copyOf(t, c)
		require.NoError(t, mine.Acquire(ctx))
		go func() {
			err := mine.Wait(ctx)
			told[i] <- errors.Join(err, mine.Release(context.WithoutCancel(ctx)))
		}()
		require.NoError(t, c.Acquire(context.WithoutCancel(ctx))) // when it sleeps
		require.NoError(t, c.Release(context.WithoutCancel(ctx)))
	}
	return told
}

func TestCondition(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	c := newCondition(t, m)
	for name, err := range map[string]error{
		"Wait": c.Wait(ctx), "Notify": c.Notify(ctx, 1), "NotifyAll": c.NotifyAll(ctx), "Release": c.Release(ctx),
	} {
		require.EqualError(t, err, "fiber: the condition is not held here: nobody holds it", name)
	}
	told := asleep(t, ctx, c, 4)
	require.NoError(t, c.Acquire(ctx))
	require.ErrorContains(t, c.Notify(ctx, 0), "at least 1")
	require.NoError(t, c.Notify(ctx, 2))
	select {
	case <-told[0]:
		t.Fatal("it went on while another one held the lock")
	case <-time.After(10 * time.Millisecond):
	}
	require.NoError(t, c.Release(ctx))
	require.NoError(t, <-told[0]) // the longest waiting first
	require.NoError(t, <-told[1])
	require.Empty(t, told[2])
	require.NoError(t, c.With(ctx, c.NotifyAll))
	require.NoError(t, <-told[2])
	require.NoError(t, <-told[3])
	require.NoError(t, c.With(ctx, c.NotifyAll), "nobody waits")
}

// Two conditions of a lock: each has its own waiters, and they exclude each
// other.
func TestConditionsOfALock(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	lock := fibertest.Sure(fiber.NewRLock(ctx, m))(t)
	full := fibertest.Sure(fiber.NewCondition(ctx, m, lock))(t)
	empty := fibertest.Sure(fiber.NewCondition(ctx, nil, lock))(t)
	waits := [][]chan error{asleep(t, ctx, full, 1), asleep(t, ctx, empty, 1)}
	require.NoError(t, lock.Acquire(ctx))
	require.False(t, fibertest.Sure(copyOf(t, full).TryAcquire(ctx))(t))
	require.NoError(t, empty.NotifyAll(ctx)) // the lock's holder is the condition's
	require.NoError(t, full.Release(ctx))
	require.NoError(t, <-waits[1][0])
	require.Empty(t, waits[0][0])
	require.NoError(t, full.With(ctx, full.NotifyAll))
	require.NoError(t, <-waits[0][0])
}

// Wait gives the lock back altogether, and takes it as often again.
func TestConditionAcquiredTwice(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	c := newCondition(t, m)
	other := copyOf(t, c)
	require.NoError(t, errors.Join(c.Acquire(ctx), c.Acquire(ctx)))
	told := make(chan error)
	go func() { told <- c.Wait(ctx) }()
	require.NoError(t, other.Acquire(ctx))
	require.NoError(t, errors.Join(other.NotifyAll(ctx), other.Release(ctx)))
	require.NoError(t, <-told)
	require.NoError(t, errors.Join(c.Release(ctx), c.Release(ctx)))
	require.Error(t, c.Release(ctx))
}

func TestContextOfAWait(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	c := newCondition(t, m)
	brief, cancel := context.WithCancel(ctx)
	told := asleep(t, brief, c, 1)
	require.NoError(t, c.Acquire(ctx))
	cancel()
	select {
	case err := <-told[0]:
		t.Fatal("it returned without the lock: ", err)
	case <-time.After(10 * time.Millisecond):
	}
	require.NoError(t, c.Release(ctx))
	require.EqualError(t, <-told[0], "context canceled", "and it could release the lock")

	require.NoError(t, c.Acquire(ctx))
	require.ErrorIs(t, c.Wait(brief), context.Canceled)
	require.NoError(t, c.Release(ctx), "still held")

	require.NoError(t, c.With(ctx, func(ctx context.Context) error {
		require.Equal(t, errShut, c.WaitFor(ctx, func() (bool, error) { return false, errShut }))
		require.NoError(t, c.WaitFor(ctx, func() (bool, error) { return true, nil }))
		return nil
	}))
}

// When the lock does not come back in time, the error says that it is not held.
func TestWaitThatDoesNotGetTheLockAgain(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	c := newCondition(t, m)
	mine := copyOf(t, c)
	brief, cancel := context.WithCancel(ctx)
	require.NoError(t, mine.Acquire(ctx))
	told := make(chan error)
	go func() { told <- mine.Wait(brief) }()
	require.NoError(t, c.Acquire(ctx))
	cancel()
	err := <-told // after a while
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the lock is not held")
	require.Error(t, mine.Release(ctx))
	require.NoError(t, c.Release(ctx))
	require.True(t, fibertest.Sure(copyOf(t, c).TryAcquire(ctx))(t))
}

// market is what producers and consumers share.
type market struct {
	Changed *fiber.Condition
	Goods   *fiber.List[int]
	Sold    *fiber.Value[int]
	From    int // to From+Count-1 are produced; 0 consumes
	Count   int
}

var trade = fiber.Register("trade", func(ctx context.Context, m market) ([]int, error) {
	var bought []int
	for i := range m.Count {
		err := m.Changed.With(ctx, func(ctx context.Context) error {
			if m.From > 0 {
				return errors.Join(m.Goods.Append(ctx, m.From+i), m.Changed.Notify(ctx, 1))
			}
			if err := m.Changed.WaitFor(ctx, func() (bool, error) { n, err := m.Goods.Len(ctx); return n > 0, err }); err != nil {
				return err
			}
			v, err := m.Goods.Pop(ctx, 0)
			bought = append(bought, v)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return bought, nil
})

func TestProducersAndConsumers(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	shop := market{Changed: newCondition(t, m), Goods: newList[int](t, m), Count: 50}
	first, second := shop, shop
	first.From, second.From = 1, 51
	pool := fibertest.NewPool(t, 4)
	var bought []int
	for _, part := range fibertest.Sure(fiber.Map(ctx, pool, trade, []market{shop, first, shop, second}, fiber.ChunkSize(1)))(t) {
		bought = append(bought, part...)
	}
	slices.Sort(bought)
	require.Equal(t, fibertest.Numbers(101)[1:], bought)
}

var holdCondition = fiber.Register("holdCondition", func(ctx context.Context, m market) (fibertest.None, error) {
	err := errors.Join(m.Changed.Acquire(ctx), m.Sold.Set(ctx, 1))
	if err == nil {
		<-ctx.Done()
	}
	runtime.KeepAlive(m)
	return fibertest.None{}, err
})

// Who was to notify is dead: nobody waits for it for ever.
func TestDeathOfANotifier(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	shop := market{Changed: newCondition(t, m), Sold: fibertest.Sure(fiber.NewValue(ctx, m, 0))(t)}
	told := asleep(t, ctx, shop.Changed, 2)
	p := fiber.NewProcess(holdCondition, shop)
	require.NoError(t, p.Start(ctx))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Sure(shop.Sold.Get(ctx))(t) == 1 }, "it has the lock")
	p.Kill()
	require.ErrorIs(t, <-told[0], fiber.ErrAbandoned)
	require.NoError(t, <-told[1])
}

// A notice for somebody who has died goes to another one.
var sleepOnCondition = fiber.Register("sleepOnCondition", func(ctx context.Context, m market) (fibertest.None, error) {
	return fibertest.None{}, errors.Join(m.Changed.Acquire(ctx), m.Sold.Set(ctx, 1), m.Changed.Wait(ctx))
})

func TestDeathOfASleeper(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	shop := market{Changed: newCondition(t, m), Sold: fibertest.Sure(fiber.NewValue(ctx, m, 0))(t)}
	p := fiber.NewProcess(sleepOnCondition, shop)
	require.NoError(t, p.Start(ctx))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Sure(shop.Sold.Get(ctx))(t) == 1 }, "it is about to wait")
	told := asleep(t, ctx, shop.Changed, 1)
	require.NoError(t, shop.Changed.Acquire(ctx))
	require.NoError(t, shop.Changed.Notify(ctx, 1)) // the process is woken, and cannot have the lock yet
	p.Kill()
	require.Error(t, p.Join(ctx))
	require.NoError(t, shop.Changed.Release(ctx))
	if err := <-told[0]; err != nil { // it may have had the lock for a moment
		require.ErrorIs(t, err, fiber.ErrAbandoned)
	}
}
