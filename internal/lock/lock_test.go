package lock_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/lock"
)

// Who gives up leaves the others' order as it is.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lock.Lock
		require.NoError(t, l.Lock(t.Context()))
		order, waits := make(chan int, 3), make([]context.CancelFunc, 3)
		gaveUp := make(chan error, 1)
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			waits[i] = cancel
			go func() {
				if err := l.Lock(ctx); err != nil {
					gaveUp <- err
					return
				}
				order <- i
				l.Unlock()
			}()
			synctest.Wait() // until it waits
		}
		waits[1]()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		require.Empty(t, order)
		l.Unlock()
		require.Equal(t, 0, <-order)
		require.Equal(t, 2, <-order)
		waits[0]()
		waits[2]()
	})
}

// A context that has ended gets nothing, even if the lock is free.
func TestLockAfterTheEnd(t *testing.T) {
	t.Parallel()
	var l lock.Lock
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Lock(ctx), context.Canceled)
	require.NoError(t, l.Lock(t.Context()), "it is free")
}
