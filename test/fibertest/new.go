//go:build unix

package fibertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// NewPool makes a pool that is closed when the test ends.
func NewPool(t testing.TB, workers int, opts ...fiber.PoolOption) *fiber.Pool {
	t.Helper()
	pool, err := fiber.NewPool(workers, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { CloseSoon(t, pool) })
	return pool
}

// CloseSoon closes a pool, and fails the test where that hangs.
func CloseSoon(t testing.TB, pool *fiber.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() { defer close(closed); pool.Close() }()
	select {
	case <-closed:
	case <-time.After(Patience):
		t.Errorf("Close hangs: %+v", pool.Stats())
		pool.Terminate()
		<-closed
	}
}

// Warm waits until all workers of a pool are ready.
func Warm(t testing.TB, pool *fiber.Pool) {
	t.Helper()
	require.NoError(t, pool.WaitUntilWorkersUp(Soon(t)))
}

// NewManager starts a manager that is closed when the test ends.
func NewManager(t testing.TB, opts ...fiber.ManagerOption) *fiber.Manager {
	t.Helper()
	m, err := fiber.NewManager(Soon(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// NewQueue makes a queue that is closed when the test ends.
func NewQueue[T any](t testing.TB, opts ...fiber.QueueOption) *fiber.SimpleQueue[T] {
	t.Helper()
	q, err := fiber.NewSimpleQueue[T](opts...)
	require.NoError(t, err)
	t.Cleanup(func() { q.Close() })
	return q
}

// NewPipe makes a pipe whose ends are closed when the test ends.
func NewPipe[T any](t testing.TB) (a, b *fiber.Conn[T]) {
	t.Helper()
	a, b, err := fiber.Pipe[T]()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Begin starts a process that is ended when the test ends.
func Begin(t testing.TB, p *fiber.Process) {
	t.Helper()
	require.NoError(t, p.Start(Soon(t)))
	t.Cleanup(func() {
		p.Kill()
		p.Join(context.Background())
	})
}

// StillWorks checks a pool after something went wrong.
func StillWorks(t testing.TB, pool *fiber.Pool) {
	t.Helper()
	outs, err := fiber.Map(Soon(t), pool, Square, Numbers(50))
	require.NoError(t, err)
	require.Equal(t, 49*49, outs[49])
	require.Zero(t, pool.Stats().WorkersLost, "a worker was lost")
	require.Zero(t, pool.Stats().Running)
	require.Zero(t, pool.Stats().Queued)
}
