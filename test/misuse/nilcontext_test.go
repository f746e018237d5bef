//go:build unix

package misuse_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// none is no context.
var none context.Context

// nilNode tries what ranks do without a context.
var nilNode = fiber.RegisterRing("nilNode", nil, func(ctx context.Context, n *fiber.RingNode, _ fibertest.None) error {
	for name, err := range map[string]error{
		"Send":      n.Right().Send(none, 1),
		"Recv":      n.Left().Recv(none, new(int)),
		"Barrier":   n.Barrier(none),
		"Broadcast": fiber.Broadcast(none, n, 0, []float64{1}),
		"AllReduce": fiber.AllReduce(none, n, []float64{1}),
	} {
		if err == nil || err.Error() != noContext {
			return &fiber.MismatchError{Reason: name}
		}
	}
	return nil
})

const noContext = "fiber: the context is nil; pass the one that your function receives, or context.Background()"

var nilNew = fiber.RegisterType("nilNew", func(context.Context, int) (*int, error) { return new(int), nil })

var nilAny = fiber.RegisterType("nilAny", func(context.Context, any) (*int, error) { return new(int), nil })

var nilMethod = fiber.RegisterMethod("nilMethod", func(*int, context.Context, int) (int, error) { return 0, nil })

// No function takes a nil context, and none panics for it.
func TestNilContext(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	m, pool := fibertest.NewManager(t), fibertest.NewPool(t, 1)
	dict, err := fiber.NewDict[string, int](ctx, m)
	require.NoError(t, err)
	list, err := fiber.NewList(ctx, m, 1)
	require.NoError(t, err)
	value, err := fiber.NewValue(ctx, m, 1)
	require.NoError(t, err)
	event, err := fiber.NewEvent(ctx, m)
	require.NoError(t, err)
	lock, err := fiber.NewRLock(ctx, m)
	require.NoError(t, err)
	condition, err := fiber.NewCondition(ctx, m, lock)
	require.NoError(t, err)
	barrier, err := fiber.NewBarrier(ctx, m, 1)
	require.NoError(t, err)
	object, err := fiber.NewObject(ctx, m, nilNew, 1)
	require.NoError(t, err)
	queue, err := fiber.NewSimpleQueue[int]()
	require.NoError(t, err)
	require.NoError(t, queue.Put(ctx, 1))
	joinable, err := fiber.NewJoinableQueue[int](ctx, m)
	require.NoError(t, err)
	anything, err := fiber.NewDict[string, any](ctx, m)
	require.NoError(t, err)
	namespace, err := fiber.NewNamespace(ctx, m)
	require.NoError(t, err)
	stuff, err := fiber.NewSimpleQueue[any]()
	require.NoError(t, err)
	bad := any(make(chan int)) // cannot travel
	here, there, err := fiber.Pipe[int]()
	require.NoError(t, err)
	defer here.Close()
	shared, err := fiber.Share(ctx, 1)
	require.NoError(t, err)
	defer shared.Close()
	p := fiber.NewProcess(fibertest.Square, 1)
	require.NoError(t, p.Start(ctx))
	late := fiber.CallAsync(ctx, object, nilMethod, 1)
	unresolved, cancel := context.WithCancel(ctx)
	defer cancel()
	rests := fiber.ApplyAsync(unresolved, pool, fibertest.Rest, time.Hour)
	for name, call := range map[string]func() error{
		"Apply":              func() error { _, err := fiber.Apply(none, pool, fibertest.Square, 1); return err },
		"ApplyAsync":         func() error { _, err := fiber.ApplyAsync(none, pool, fibertest.Square, 1).Get(ctx); return err },
		"Map":                func() error { _, err := fiber.Map(none, pool, fibertest.Square, []int{1}); return err },
		"IMap":               func() error { return only(fiber.IMap(none, pool, fibertest.Square, slices.Values([]int{1}))) },
		"WaitUntilWorkersUp": func() error { return pool.WaitUntilWorkersUp(none) },
		"Resize":             func() error { return pool.Resize(none, 1) },
		"Future.Get":         func() error { _, err := rests.Get(none); return err },
		"Start":              func() error { return fiber.NewProcess(fibertest.Square, 1).Start(none) },
		"Join":               func() error { return p.Join(none) },
		"Logs":               func() error { _, err := p.Logs(none); return err },
		"NewManager":         func() error { _, err := fiber.NewManager(none); return err },
		"New":                func() error { _, err := fiber.NewObject(none, m, nilNew, 1); return err },
		"Call":               func() error { _, err := fiber.Call(none, object, nilMethod, 1); return err },
		"CallAsync":          func() error { _, err := fiber.CallAsync(none, object, nilMethod, 1).Get(ctx); return err },
		"NewDict":            func() error { _, err := fiber.NewDict[string, int](none, m); return err },
		"Dict.Get":           func() error { _, _, err := dict.Get(none, "x"); return err },
		"Dict.Set":           func() error { return dict.Set(none, "x", 1) },
		"Func.Call":          func() error { _, err := fibertest.Square.Call(none, 1); return err },
		"MapAsync":           func() error { _, err := fiber.MapAsync(none, pool, fibertest.Square, []int{1}).Get(ctx); return err },
		"IMapUnordered":      func() error { return only(fiber.IMapUnordered(none, pool, fibertest.Square, slices.Values([]int{1}))) },
		"New, bad":           func() error { _, err := fiber.NewObject(none, m, nilAny, any(bad)); return err },
		"Dict.Set, bad":      func() error { return anything.Set(none, "x", bad) },
		"Dict.Delete":        func() error { _, err := dict.Delete(none, "x"); return err },
		"Dict.CompareAndSet": func() error { _, err := dict.CompareAndSet(none, "x", 1, 2); return err },
		"Dict.Clear":         func() error { return dict.Clear(none) },
		"Namespace.Set, bad": func() error { return namespace.Set(none, "x", bad) },
		"Namespace.Get":      func() error { _, err := namespace.Get(none, "x", new(int)); return err },
		"List.Insert":        func() error { return list.Insert(none, 0, 1) },
		"List.Pop":           func() error { _, err := list.Pop(none, 0); return err },
		"List.Remove":        func() error { _, err := list.Remove(none, 1); return err },
		"List.CompareAndSet": func() error { _, err := list.CompareAndSet(none, 0, 1, 2); return err },
		"NewList":            func() error { _, err := fiber.NewList(none, m, 1); return err },
		"NewLock":            func() error { _, err := fiber.NewLock(none, m); return err },
		"WaitFor":            func() error { return condition.WaitFor(none, func() (bool, error) { return true, nil }) },
		"GetMany":            func() error { _, err := queue.GetMany(none, 1); return err },
		"Put, bad":           func() error { return stuff.Put(none, bad) },
		"PutMany, bad":       func() error { return stuff.PutMany(none, []any{bad}) },
		"Barrier.Reset":      func() error { return barrier.Reset(none) },
		"Barrier.Parties":    func() error { _, err := barrier.Parties(none); return err },
		"Dict.Update":        func() error { _, err := dict.Update(none, "x", nil); return err },
		"Dict.All":           func() error { _, err := dict.All(none); return err },
		"List.Append":        func() error { return list.Append(none, 1) },
		"List.Get":           func() error { _, err := list.Get(none, 0); return err },
		"List.Update":        func() error { _, err := list.Update(none, 0, nil); return err },
		"Value.Get":          func() error { _, err := value.Get(none); return err },
		"Event.Wait":         func() error { return event.Wait(none) },
		"Acquire":            func() error { return lock.Acquire(none) },
		"TryAcquire":         func() error { _, err := lock.TryAcquire(none); return err },
		"Release":            func() error { return lock.Release(none) },
		"With":               func() error { return lock.With(none, nil) },
		"Condition.Wait":     func() error { return condition.Wait(none) },
		"Notify":             func() error { return condition.NotifyAll(none) },
		"NewCondition":       func() error { _, err := fiber.NewCondition(none, m, lock); return err },
		"NewSemaphore":       func() error { _, err := fiber.NewSemaphore(none, m, 1); return err },
		"Barrier.Wait":       func() error { _, err := barrier.Wait(none); return err },
		"Barrier.Abort":      func() error { return barrier.Abort(none) },
		"Put":                func() error { return queue.Put(none, 1) },
		"PutMany":            func() error { return queue.PutMany(none, []int{1}) },
		"Queue.Get":          func() error { _, err := queue.Get(none); return err },
		"Len":                func() error { _, err := queue.Len(none); return err },
		"NewQueue":           func() error { _, err := fiber.NewQueue[int](none, m); return err },
		"TaskDone":           func() error { return joinable.TaskDone(none) },
		"Queue.Join":         func() error { return joinable.Join(none) },
		"Send":               func() error { return here.Send(none, 1) },
		"Recv":               func() error { _, err := there.Recv(none); return err },
		"Share":              func() error { _, err := fiber.Share(none, 1); return err },
		"Shared.Get":         func() error { _, err := shared.Get(none); return err },
		"Ring.Run":           func() error { return fiber.NewRing(1, nilNode).Run(none, fibertest.None{}) },
		"Command":            func() error { return fiber.Command(none, "true").Run() },
		"Shutdown":           func() error { return fiber.Shutdown(none) },
	} {
		require.EqualError(t, call(), noContext, name)
	}
	require.NoError(t, fiber.NewRing(2, nilNode).Run(ctx, fibertest.None{}))

	// Nothing has happened.
	n, err := queue.Len(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = late.Get(ctx)
	require.NoError(t, err)
}

func only(seq iter.Seq2[int, error]) (err error) {
	for _, err = range seq {
	}
	return err
}

// A function or an option that is nil is an error, and no panic.
func TestNilFunction(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	m, pool := fibertest.NewManager(t), fibertest.NewPool(t, 1)
	dict := fibertest.Sure(fiber.NewDict[string, int](ctx, m))(t)
	list := fibertest.Sure(fiber.NewList(ctx, m, 1))(t)
	value := fibertest.Sure(fiber.NewValue(ctx, m, 1))(t)
	lock := fibertest.Sure(fiber.NewRLock(ctx, m))(t)
	condition := fibertest.Sure(fiber.NewCondition(ctx, m, lock))(t)
	for _, test := range []struct {
		want string
		call func() error
	}{
		{"fiber: Update: the function is nil", func() error { _, err := dict.Update(ctx, "x", nil); return err }},
		{"fiber: Update: the function is nil", func() error { _, err := list.Update(ctx, 0, nil); return err }},
		{"fiber: Update: the function is nil", func() error { _, err := value.Update(ctx, nil); return err }},
		{"fiber: With: the function is nil", func() error { return lock.With(ctx, nil) }},
		{"fiber: WaitFor: the function is nil", func() error { return condition.WaitFor(ctx, nil) }},
		{"fiber: IMap: the input is nil", func() error { return only(fiber.IMap(ctx, pool, fibertest.Square, nil)) }},
		{"fiber: NewPool: option 1 of 1 is nil; leave it out", func() error { _, err := fiber.NewPool(1, nil); return err }},
		{"fiber: NewManager: option 1 of 1 is nil; leave it out", func() error { _, err := fiber.NewManager(ctx, nil); return err }},
		{"fiber: NewProcess: option 1 of 1 is nil; leave it out", func() error { return fiber.NewProcess(fibertest.Square, 1, nil).Start(ctx) }},
		{"fiber: NewRing: option 2 of 2 is nil; leave it out", func() error { return fiber.NewRing(1, nilNode, fiber.WithName("x"), nil).Run(ctx, fibertest.None{}) }},
		{"fiber: NewSimpleQueue: option 1 of 1 is nil; leave it out", func() error { _, err := fiber.NewSimpleQueue[int](nil); return err }},
		{"fiber: the call of square: option 1 of 1 is nil; leave it out", func() error { _, err := fiber.Apply(ctx, pool, fibertest.Square, 1, nil); return err }},
	} {
		require.EqualError(t, test.call(), test.want)
	}
}
