package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

// While one caller makes the value, others wait. After its error the next one makes it, and then it is made.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once lock.Once[int]
		no, begun, outcome := errors.New("no"), 0, make(chan error)
		made := make(chan error, 2)
		for range 2 {
			go func() {
				v, err := once.Make(t.Context(), func() (*int, error) {
					begun++
					return new(begun), <-outcome
				})
				if err == nil && *v != 2 {
					err = errors.New("another value")
				}
				made <- err
			}()
		}
		synctest.Wait()
		require.Equal(t, 1, begun)
		given, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := once.Make(given, func() (*int, error) { panic("another one makes it") })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		outcome <- no
		require.Equal(t, no, <-made)
		require.Nil(t, once.Made())
		outcome <- nil
		require.NoError(t, <-made)
		require.Equal(t, 2, *once.Made())
		v, err := once.Make(given, func() (*int, error) { panic("it is made") })
		require.NoError(t, err)
		require.Equal(t, 2, *v)
	})
}
