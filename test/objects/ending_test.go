//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// operations are what waits for an object of each kind in a manager, and after
// the manager's end what does not wait, too.
func operations(t *testing.T, m *fiber.Manager) (waiting, later map[string]func(ctx context.Context) error) {
	ctx := fibertest.Soon(t)
	rings, journal := manage(t, m, bells, fibertest.None{}), manage(t, m, journals, "")
	dict := made(t, fiber.NewDict[string, int], m)
	namespace := made(t, fiber.NewNamespace, m)
	event := made(t, fiber.NewEvent, m)
	lock, rlock, free := made(t, fiber.NewLock, m), made(t, fiber.NewRLock, m), made(t, fiber.NewRLock, m)
	require.NoError(t, lock.Acquire(ctx))
	holder := made(t, fiber.NewDict[string, *fiber.RLock], m) // another proxy of the lock is another owner
	require.NoError(t, holder.Set(ctx, "lock", rlock))
	other, _, err := holder.Get(ctx, "lock")
	require.NoError(t, err)
	require.NoError(t, other.Acquire(ctx))
	t.Cleanup(func() { other.Release(fibertest.Soon(t)) })
	condition, err := fiber.NewCondition(ctx, m, free)
	require.NoError(t, err)
	semaphore, err := fiber.NewSemaphore(ctx, m, 0)
	require.NoError(t, err)
	bounded, err := fiber.NewBoundedSemaphore(ctx, m, 1)
	require.NoError(t, err)
	require.NoError(t, bounded.Acquire(ctx))
	barrier, err := fiber.NewBarrier(ctx, m, 2)
	require.NoError(t, err)
	list, err := fiber.NewList(ctx, m, 1, 2)
	require.NoError(t, err)
	array, err := fiber.NewArray(ctx, m, []int{1, 2})
	require.NoError(t, err)
	value, err := fiber.NewValue(ctx, m, 1)
	require.NoError(t, err)
	empty := made(t, func(ctx context.Context, m *fiber.Manager) (*fiber.Queue[int], error) {
		return fiber.NewQueue[int](ctx, m)
	}, m)
	full, err := fiber.NewQueue[int](ctx, m, fiber.WithCapacity(1))
	require.NoError(t, err)
	require.NoError(t, full.Put(ctx, 1))
	joinable, err := fiber.NewJoinableQueue[int](ctx, m)
	require.NoError(t, err)
	require.NoError(t, joinable.Put(ctx, 1))

	// The journal's first call runs until its context ends; the others wait for it.
	running := fiber.CallAsync(ctx, journal, writeEntry, entry{1, rings})
	must(t, rings, awaitBell, "begun")

	waiting = map[string]func(ctx context.Context) error{
		"running Call": func(ctx context.Context) error { _, err := running.Get(ctx); return err },
		"waiting Call": func(ctx context.Context) error { _, err := fiber.Call(ctx, journal, writeEntry, entry{}); return err },
		"CallAsync": func(ctx context.Context) error {
			_, err := fiber.CallAsync(ctx, journal, writeEntry, entry{}).Get(ctx)
			return err
		},
		"concurrent Call": func(ctx context.Context) error { _, err := fiber.Call(ctx, rings, awaitBell, "never"); return err },
		"New":             func(ctx context.Context) error { _, err := fiber.NewObject(ctx, m, slowJournals, rings); return err },
		"Queue.Get":       func(ctx context.Context) error { _, err := empty.Get(ctx); return err },
		"Queue.GetMany":   func(ctx context.Context) error { _, err := empty.GetMany(ctx, 2); return err },
		"Queue.Put":       func(ctx context.Context) error { return full.Put(ctx, 2) },
		"Queue.PutMany":   func(ctx context.Context) error { return full.PutMany(ctx, []int{2, 3}) },
		"Join":            joinable.Join,
		"Lock.Acquire":    lock.Acquire,
		"RLock.Acquire":   rlock.Acquire,
		"Lock.With":       func(ctx context.Context) error { return lock.With(ctx, func(context.Context) error { return nil }) },
		"Semaphore":       semaphore.Acquire,
		"Bounded":         bounded.Acquire,
		"Event.Wait":      event.Wait,
		"Barrier.Wait":    func(ctx context.Context) error { _, err := barrier.Wait(ctx); return err },
		"Condition.Wait": func(ctx context.Context) error {
			return free.With(ctx, func(ctx context.Context) error { return condition.Wait(ctx) })
		},
	}
	later = map[string]func(ctx context.Context) error{
		"NewDict":  func(ctx context.Context) error { _, err := fiber.NewDict[string, int](ctx, m); return err },
		"Dict.Get": func(ctx context.Context) error { _, _, err := dict.Get(ctx, "x"); return err },
		"Dict.Set": func(ctx context.Context) error { return dict.Set(ctx, "x", 1) },
		"Dict.All": func(ctx context.Context) error { _, err := dict.All(ctx); return err },
		"Dict.Update": func(ctx context.Context) error {
			_, err := dict.Update(ctx, "x", func(int, bool) (int, error) { return 1, nil })
			return err
		},
		"Namespace.Set":     func(ctx context.Context) error { return namespace.Set(ctx, "x", 1) },
		"Namespace.Get":     func(ctx context.Context) error { _, err := namespace.Get(ctx, "x", new(int)); return err },
		"List.Append":       func(ctx context.Context) error { return list.Append(ctx, 1) },
		"List.Pop":          func(ctx context.Context) error { _, err := list.Pop(ctx, 0); return err },
		"List.Slice":        func(ctx context.Context) error { _, err := list.Slice(ctx, 0, 1); return err },
		"Array.Get":         func(ctx context.Context) error { _, err := array.Get(ctx, 0); return err },
		"Array.SetSlice":    func(ctx context.Context) error { return array.SetSlice(ctx, 0, []int{1}) },
		"Value.Get":         func(ctx context.Context) error { _, err := value.Get(ctx); return err },
		"Value.Set":         func(ctx context.Context) error { return value.Set(ctx, 1) },
		"Queue.Len":         func(ctx context.Context) error { _, err := empty.Len(ctx); return err },
		"TaskDone":          joinable.TaskDone,
		"TryAcquire":        func(ctx context.Context) error { _, err := lock.TryAcquire(ctx); return err },
		"Permits":           func(ctx context.Context) error { _, err := semaphore.Permits(ctx); return err },
		"Semaphore.Release": semaphore.Release,
		"Event.Set":         event.Set,
		"Event.IsSet":       func(ctx context.Context) error { _, err := event.IsSet(ctx); return err },
		"Barrier.Reset":     barrier.Reset,
		"Barrier.Broken":    func(ctx context.Context) error { _, err := barrier.Broken(ctx); return err },
		"Notify":            func(ctx context.Context) error { return condition.Notify(ctx, 1) },
	}
	for name, op := range waiting {
		if name != "running Call" {
			later[name+" after the end"] = op
		}
	}
	return waiting, later
}

// made makes an object in a manager.
func made[T any](t *testing.T, constructor func(context.Context, *fiber.Manager) (T, error), m *fiber.Manager) T {
	t.Helper()
	o, err := constructor(fibertest.Soon(t), m)
	require.NoError(t, err)
	return o
}

// However a manager ends, all operations of all objects say the same: ErrClosed
// where somebody has closed it, and else that its process was lost.
func TestOneErrorForAnEndedManager(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(m *fiber.Manager) error{
		"closed":    (*fiber.Manager).Close,
		"told to":   func(m *fiber.Manager) error { return syscall.Kill(m.PID(), syscall.SIGTERM) },
		"killed":    func(m *fiber.Manager) error { return syscall.Kill(m.PID(), syscall.SIGKILL) },
		"by itself": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := fibertest.NewManager(t)
			if end == nil {
				n := manage(t, m, naughties, "")
				end = func(*fiber.Manager) error {
					fiber.CallAsync(fibertest.Soon(t), n, suicide, fibertest.None{})
					return nil
				}
			}
			waiting, later := operations(t, m)
			outcomes := map[string]chan error{}
			for what, op := range waiting {
				outcome := make(chan error, 1)
				outcomes[what] = outcome
				begun := make(chan struct{})
				go func() { close(begun); outcome <- op(fibertest.Soon(t)) }()
				<-begun
			}
			made(t, fiber.NewEvent, m) // most of the requests are on their way by now
			require.NoError(t, end(m))
			check := func(what string, err error) {
				if name == "closed" {
					require.ErrorIs(t, err, fiber.ErrClosed, what)
					require.Regexp(t, `^fiber: .*manager( `+m.Name()+`)? was closed`, err.Error(), what)
					require.NotErrorAs(t, err, new(*fiber.WorkerLostError), what)
					return
				}
				var lost *fiber.WorkerLostError
				require.ErrorAs(t, err, &lost, what)
				require.NotErrorIs(t, err, fiber.ErrClosed, what)
				require.NotErrorIs(t, err, context.Canceled, what)
			}
			for what, outcome := range outcomes {
				check(what, <-outcome)
			}
			for what, op := range later {
				check(what, op(fibertest.Soon(t)))
			}
		})
	}
}

// What waits in the program that shuts down learns the same.
//
//fiber:ignore unclosed that is what is tested
var _ = fibertest.MainProgram("shutdown while waiting", func(ctx context.Context) error {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	b, err := fiber.NewObject(ctx, m, bells, fibertest.None{})
	if err != nil {
		return err
	}
	j, err := fiber.NewObject(ctx, m, journals, "")
	if err != nil {
		return err
	}
	var calls []*fiber.Future[int]
	for range 3 {
		calls = append(calls, fiber.CallAsync(ctx, j, writeEntry, entry{Bell: b}))
	}
	if _, err := fiber.Call(ctx, b, awaitBell, "begun"); err != nil {
		return err
	}
	if err := fiber.Shutdown(ctx); err != nil {
		return err
	}
	for _, call := range calls {
		_, err := call.Get(ctx)
		fmt.Println(errors.As(err, new(*fiber.WorkerLostError)), errors.Is(err, fiber.ErrClosed))
	}
	return nil
})

func TestShutdownWhileACallWaits(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "shutdown while waiting")
	require.Zero(t, x.Wait(fibertest.Patience), x.Err.String())
	require.Equal(t, strings.Repeat("true false\n", 3), x.Out.String())
}

// A manager that is stopped can't say that it was closed. The process that has closed it knows.
func TestCloseOfAStoppedManager(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	m := fibertest.NewManager(t)
	d := made(t, fiber.NewDict[string, int], m)
	q := made(t, newEmptyQueue, m)
	waiting := make(chan error, 1)
	go func() { _, err := q.Get(ctx); waiting <- err }()
	require.NoError(t, syscall.Kill(m.PID(), syscall.SIGSTOP))
	require.NoError(t, m.Close())
	require.ErrorIs(t, <-waiting, fiber.ErrClosed)
	require.ErrorIs(t, d.Set(ctx, "a", 1), fiber.ErrClosed)
}

func newEmptyQueue(ctx context.Context, m *fiber.Manager) (*fiber.Queue[int], error) {
	return fiber.NewQueue[int](ctx, m)
}
