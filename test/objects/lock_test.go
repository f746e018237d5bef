//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// locked is a lock, in one of two forms, and where its users leave traces.
type locked struct {
	Lock  *fiber.Lock
	RLock *fiber.RLock
	Held  *fiber.Event // set when it is held
	File  string
	Times int
}

func newLocked(t testing.TB, m *fiber.Manager) locked {
	t.Helper()
	ctx := fibertest.Soon(t)
	return locked{fibertest.Sure(fiber.NewLock(ctx, m))(t), fibertest.Sure(fiber.NewRLock(ctx, m))(t), fibertest.Sure(fiber.NewEvent(ctx, m))(t), fibertest.TempFile(t), 1}
}

// keepLocks acquires both locks and does not give them back.
var keepLocks = fiber.Register("keepLocks", func(ctx context.Context, l locked) (int, error) {
	err := errors.Join(l.Lock.Acquire(ctx), l.RLock.Acquire(ctx), l.RLock.Acquire(ctx), l.Held.Set(ctx))
	if err != nil || l.Times == 0 {
		return os.Getpid(), err
	}
	<-ctx.Done()
	runtime.KeepAlive(l)
	return 0, ctx.Err()
})

func TestLock(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := fibertest.Sure(fiber.NewLock(ctx, m))(t)
	other := new(fiber.Lock) // another proxy of this process
	require.NoError(t, other.UnmarshalBinary(fibertest.Sure(l.MarshalBinary())(t)))

	require.EqualError(t, l.Release(ctx), "fiber: the lock is not held here: nobody holds it")
	require.NoError(t, l.Acquire(ctx))
	require.False(t, fibertest.Sure(other.TryAcquire(ctx))(t))
	require.False(t, fibertest.Sure(l.TryAcquire(ctx))(t), "it is not reentrant")
	require.EqualError(t, other.Release(ctx), "fiber: the lock is not held here: another proxy of the same process holds it")
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, other.Acquire(brief), context.DeadlineExceeded)
	require.ErrorIs(t, l.Acquire(brief), context.DeadlineExceeded)

	next := make(chan error)
	go func() { next <- other.Acquire(ctx) }()
	require.NoError(t, l.Release(brief), "a context that has ended")
	require.NoError(t, <-next)
	require.EqualError(t, l.Release(ctx), "fiber: the lock is not held here: another proxy of the same process holds it")
	require.NoError(t, other.Release(ctx))
	require.True(t, fibertest.Sure(l.TryAcquire(ctx))(t))

	pool := fibertest.NewPool(t, 1)
	_, err := fiber.Apply(ctx, pool, releaseLock, l)
	require.ErrorContains(t, err, "MainProcess holds it")
	require.NoError(t, l.Release(ctx))

	require.Equal(t, errShut, l.With(ctx, func(context.Context) error {
		require.False(t, fibertest.Sure(other.TryAcquire(ctx))(t))
		return errShut
	}))
	require.True(t, fibertest.Sure(other.TryAcquire(ctx))(t))
}

var releaseLock = fiber.Register("releaseLock", func(ctx context.Context, l *fiber.Lock) (fibertest.None, error) {
	return fibertest.None{}, l.Release(ctx)
})

func TestRLock(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := fibertest.Sure(fiber.NewRLock(ctx, m))(t)
	other := new(fiber.RLock)
	require.NoError(t, other.UnmarshalBinary(fibertest.Sure(l.MarshalBinary())(t)))
	require.NoError(t, l.Acquire(ctx))
	require.True(t, fibertest.Sure(l.TryAcquire(ctx))(t))
	require.NoError(t, l.Acquire(ctx))
	for range 2 {
		require.NoError(t, l.Release(ctx))
		require.False(t, fibertest.Sure(other.TryAcquire(ctx))(t))
		require.Error(t, other.Release(ctx))
	}
	require.NoError(t, l.Release(ctx))
	require.True(t, fibertest.Sure(other.TryAcquire(ctx))(t))
	require.Error(t, l.Release(ctx))
}

// A holder's death, and its orderly end, give the lock to the next, who is
// told, once.
func TestAbandonedLock(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, p *fiber.Process){
		"killed":     func(_ context.Context, p *fiber.Process) { p.Kill() },
		"terminated": func(_ context.Context, p *fiber.Process) { p.Terminate() },
		"ended":      func(ctx context.Context, p *fiber.Process) { p.Join(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
			l := newLocked(t, m)
			if name == "ended" {
				l.Times = 0
			}
			p := fiber.NewProcess(keepLocks, l)
			require.NoError(t, p.Start(ctx))
			require.NoError(t, l.Held.Wait(ctx))
			acquired := make(chan error, 2)
			go func() { acquired <- l.Lock.Acquire(ctx) }()
			go func() { acquired <- l.RLock.Acquire(ctx) }()
			end(ctx, p)
			require.ErrorIs(t, <-acquired, fiber.ErrAbandoned)
			require.ErrorIs(t, <-acquired, fiber.ErrAbandoned)

			// It is held, and whoever comes next is not told.
			other, rother := new(fiber.Lock), new(fiber.RLock)
			require.NoError(t, other.UnmarshalBinary(fibertest.Sure(l.Lock.MarshalBinary())(t)))
			require.NoError(t, rother.UnmarshalBinary(fibertest.Sure(l.RLock.MarshalBinary())(t)))
			require.False(t, fibertest.Sure(other.TryAcquire(ctx))(t))
			require.False(t, fibertest.Sure(rother.TryAcquire(ctx))(t))
			require.NoError(t, errors.Join(l.Lock.Release(ctx), l.RLock.Release(ctx)))
			require.True(t, fibertest.Sure(other.TryAcquire(ctx))(t))
			require.True(t, fibertest.Sure(rother.TryAcquire(ctx))(t))
			p.Kill()
			p.Join(ctx)
		})
	}
}

// ErrAbandoned is ErrAbandoned in every process.
func TestAbandonedLockElsewhere(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := newLocked(t, m)
	l.Times = 0
	pool := fibertest.NewPool(t, 1)
	pid := fibertest.Sure(fiber.Apply(ctx, pool, keepLocks, l))(t)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	_, err := fiber.Apply(ctx, fibertest.NewPool(t, 1), keepLocks, l)
	require.ErrorIs(t, err, fiber.ErrAbandoned)
}

// A proxy that nobody has any more holds nothing, also where another one is.
func TestLockOfADroppedProxy(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l, s := fibertest.Sure(fiber.NewLock(ctx, m))(t), fibertest.Sure(fiber.NewSemaphore(ctx, m, 1))(t)
	func() {
		lost, spent := new(fiber.Lock), new(fiber.Semaphore)
		require.NoError(t, lost.UnmarshalBinary(fibertest.Sure(l.MarshalBinary())(t)))
		require.NoError(t, spent.UnmarshalBinary(fibertest.Sure(s.MarshalBinary())(t)))
		require.NoError(t, errors.Join(lost.Acquire(ctx), spent.Acquire(ctx)))
	}()
	collected := func(back func() bool) {
		t.Helper()
		fibertest.Eventually(t, fibertest.Patience, func() bool { runtime.GC(); return back() }, "it does not come back")
	}
	collected(func() bool { return fibertest.Sure(s.TryAcquire(ctx))(t) })
	collected(func() bool {
		ok, err := l.TryAcquire(ctx)
		require.Equal(t, ok, errors.Is(err, fiber.ErrAbandoned))
		return ok
	})
	require.NoError(t, l.Release(ctx))
}

// With does not touch what an abandoned lock guards, and leaves it to somebody
// who looks after it.
func TestWithAnAbandonedLock(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := newLocked(t, m)
	p := fiber.NewProcess(keepLocks, l)
	require.NoError(t, p.Start(ctx))
	require.NoError(t, l.Held.Wait(ctx))
	p.Kill()
	never := func(context.Context) error { t.Error("it ran"); return nil }
	require.ErrorIs(t, l.Lock.With(ctx, never), fiber.ErrAbandoned)
	require.ErrorIs(t, l.Lock.With(ctx, never), fiber.ErrAbandoned)
	ok, err := l.Lock.TryAcquire(ctx)
	require.True(t, ok)
	require.ErrorIs(t, err, fiber.ErrAbandoned)
	require.NoError(t, l.Lock.Release(ctx))
	ran := false
	require.NoError(t, l.Lock.With(ctx, func(context.Context) error { ran = true; return nil }))
	require.True(t, ran)
}

// contend holds a lock so often, and notes when it begins and ends.
var contend = fiber.Register("contend", func(ctx context.Context, l locked) (fibertest.None, error) {
	var with func(context.Context, func(context.Context) error) error
	if l.Lock != nil {
		with = l.Lock.With
	} else {
		with = l.RLock.With
	}
	for range l.Times {
		err := with(ctx, func(context.Context) error {
			begin := fibertest.Marking{File: l.File, Line: fmt.Sprint("in", fibertest.Self())}
			end := fibertest.Marking{File: l.File, Line: fmt.Sprint("out", fibertest.Self())}
			return errors.Join(begin.Append(), end.Append())
		})
		if err != nil {
			return fibertest.None{}, err
		}
	}
	return fibertest.None{}, nil
})

func TestMutualExclusion(t *testing.T) {
	t.Parallel()
	const processes, times = 4, 40
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	pool := fibertest.NewPool(t, processes)
	fibertest.Warm(t, pool)
	for _, l := range []locked{{Lock: fibertest.Sure(fiber.NewLock(ctx, m))(t)}, {RLock: fibertest.Sure(fiber.NewRLock(ctx, m))(t)}} {
		l.File, l.Times = fibertest.TempFile(t), times
		fibertest.Sure(fiber.Map(ctx, pool, contend, slices.Repeat([]locked{l}, processes), fiber.ChunkSize(1)))(t)
		trace := fibertest.Lines(t, l.File)
		require.Len(t, trace, 2*processes*times)
		for i := 0; i < len(trace); i += 2 {
			pid, ok := strings.CutPrefix(trace[i], "in")
			require.True(t, ok, trace[i])
			require.Equal(t, "out"+pid, trace[i+1])
		}
		require.Equal(t, 2*processes, fibertest.Distinct(trace), "a process had no turn")
	}

	// Goroutines that share a proxy.
	lock, n := fibertest.Sure(fiber.NewLock(ctx, m))(t), 0
	done := make(chan error)
	for range 8 {
		go func() {
			var err error
			for range 20 {
				err = errors.Join(err, lock.With(ctx, func(context.Context) error { n++; return nil }))
			}
			done <- err
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	require.Equal(t, 160, n)
}

// A lock that is granted to somebody who waits no more is not lost.
func TestLockGrantedTooLate(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := fibertest.Sure(fiber.NewLock(ctx, m))(t)
	other := new(fiber.Lock)
	require.NoError(t, other.UnmarshalBinary(fibertest.Sure(l.MarshalBinary())(t)))
	for i := range 300 {
		require.NoError(t, l.Acquire(ctx))
		brief, cancel := context.WithCancel(ctx)
		waited := make(chan error)
		go func() { waited <- other.Acquire(brief) }()
		go cancel() // about when the lock is free
		require.NoError(t, l.Release(ctx))
		if err := <-waited; err == nil {
			require.NoError(t, other.Release(ctx))
		} else {
			require.ErrorIs(t, err, context.Canceled, i)
		}
	}
	require.NoError(t, l.Acquire(ctx))
}
