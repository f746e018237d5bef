//go:build unix

package objects_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

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
	qs := fibertest.NewQueue[*fiber.SimpleQueue[int]](t)
	p := fiber.NewProcess(answering, qs)
	fibertest.Begin(t, p)
	for range 20 {
		q := fibertest.NewQueue[int](t)
		require.NoError(t, qs.Put(fibertest.Soon(t), q))
		pid, err := q.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, p.PID(), pid)
	}
	require.NoError(t, qs.Close())
	require.NoError(t, p.Join(fibertest.Soon(t)))
}

// An item keeps what it names, when nobody else does.
func TestItemKeepsItsQueue(t *testing.T) {
	t.Parallel()
	qs := fibertest.NewQueue[*fiber.SimpleQueue[int]](t)
	func() {
		q, err := fiber.NewSimpleQueue[int]()
		require.NoError(t, err)
		require.NoError(t, q.Put(fibertest.Soon(t), 42))
		require.NoError(t, qs.Put(fibertest.Soon(t), q))
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run
	}
	q, err := qs.Get(fibertest.Soon(t))
	require.NoError(t, err)
	v, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 42, v)
}

// A queue that is in itself is closed by somebody who has it no other way.
func TestQueueInItself(t *testing.T) {
	t.Parallel()
	type knot struct{ Self *fiber.SimpleQueue[knot] }
	q := fibertest.NewQueue[knot](t)
	require.NoError(t, q.Put(fibertest.Soon(t), knot{q}))
	k, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, q.Put(fibertest.Soon(t), k))
	require.NoError(t, k.Self.Close())
	_, err = q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	_, err = q.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

// relaying has a process of its own take a queue's items, and puts what it got
// into another.
var relaying = fiber.Register("relaying", func(ctx context.Context, w [2]taking) (fibertest.None, error) {
	inner, err := fiber.NewSimpleQueue[parcel]()
	if err != nil {
		return fibertest.None{}, err
	}
	p := fiber.NewProcess(moving, [2]taking{w[0], {Queue: inner}})
	if err := p.Start(ctx); err != nil {
		return fibertest.None{}, err
	}
	for range w[0].N {
		item, err := inner.Get(ctx)
		if err == nil {
			err = w[1].Queue.Put(ctx, item)
		}
		if err != nil {
			return fibertest.None{}, err
		}
	}
	return fibertest.None{}, p.Join(ctx)
})

var moving = fiber.Register("moving", func(ctx context.Context, w [2]taking) (fibertest.None, error) {
	for range w[0].N {
		item, err := w[0].Queue.Get(ctx)
		if err == nil {
			err = w[1].Queue.Put(ctx, item)
		}
		if err != nil {
			return fibertest.None{}, err
		}
	}
	return fibertest.None{}, nil
})

func TestQueuesOfNestedProcesses(t *testing.T) {
	t.Parallel()
	in, out := fibertest.NewQueue[parcel](t), fibertest.NewQueue[parcel](t)
	p := fiber.NewProcess(relaying, [2]taking{{Queue: in, N: 100}, {Queue: out}})
	fibertest.Begin(t, p)
	for i := range 100 {
		require.NoError(t, in.Put(fibertest.Soon(t), parcel{0, i}))
	}
	got, err := take(fibertest.Soon(t), taking{Queue: out, N: 100})
	require.NoError(t, err)
	for i, item := range got {
		require.Equal(t, i, item.N)
	}
	require.NoError(t, p.Join(fibertest.Soon(t)))
}

// A queue's home is killed: waiting and later calls say so, here and in a
// process that is not its parent.
func TestQueueOfAKilledProcess(t *testing.T) {
	t.Parallel()
	home, other := fibertest.NewPool(t, 1), fibertest.NewPool(t, 1)
	q, err := fiber.Apply(fibertest.Soon(t), home, queueOf, 0)
	require.NoError(t, err)
	pid, err := fiber.Apply(fibertest.Soon(t), home, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	_, err = q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(fibertest.Soon(t)); waiting <- err }()
	elsewhere := fiber.ApplyAsync(fibertest.Soon(t), other, takeParcels, taking{Queue: q, N: 1})
	fibertest.Eventually(t, fibertest.Patience, func() bool { return other.Stats().Running == 1 }, "it runs")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, <-waiting, &lost)
	_, err = elsewhere.Get(fibertest.Soon(t))
	require.ErrorAs(t, err, &lost)
	_, err = q.Get(fibertest.Soon(t))
	require.ErrorAs(t, err, &lost)
	require.ErrorAs(t, q.Put(fibertest.Soon(t), parcel{}), &lost)
	require.ErrorAs(t, q.PutMany(fibertest.Soon(t), make([]parcel, 2)), &lost)
	_, err = q.Len(fibertest.Soon(t))
	require.ErrorAs(t, err, &lost)
}

func TestQueueOfAProcessThatHasEnded(t *testing.T) {
	t.Parallel()
	home, err := fiber.NewPool(1)
	require.NoError(t, err)
	defer home.Close()
	q, err := fiber.Apply(fibertest.Soon(t), home, queueOf, 1)
	require.NoError(t, err)
	_, err = q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(fibertest.Soon(t)); waiting <- err }()
	lost := func(err error) {
		t.Helper()
		require.ErrorAs(t, err, new(*fiber.WorkerLostError))
		require.NotErrorIs(t, err, fiber.ErrClosed, "nobody has closed the queue")
	}
	fibertest.CloseSoon(t, home)
	lost(<-waiting)
	_, err = q.Get(fibertest.Soon(t))
	lost(err)
	lost(q.Put(fibertest.Soon(t), parcel{}))
	_, err = q.Len(fibertest.Soon(t))
	lost(err)
	lost(q.Close())
}

func TestQueueOfAnotherType(t *testing.T) {
	t.Parallel()
	numbers := fibertest.NewQueue[int](t)
	name, err := numbers.MarshalBinary()
	require.NoError(t, err)
	var texts fiber.SimpleQueue[string]
	require.NoError(t, texts.UnmarshalBinary(name))
	require.NoError(t, numbers.Put(fibertest.Soon(t), 7))
	_, err = texts.Get(fibertest.Soon(t))
	var mismatch *fiber.MismatchError
	require.ErrorAs(t, err, &mismatch)
	v, err := numbers.Get(fibertest.Soon(t))
	require.NoError(t, err, "the item was lost")
	require.Equal(t, 7, v)
	require.Error(t, texts.UnmarshalBinary([]byte("nonsense")))
}
