package guard_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/guard"
)

var errOwn = errors.New("own")

func broken() error { panic(errOwn) }

// However the user's code ends, its caller goes on and is told.
func TestCall(t *testing.T) {
	t.Parallel()
	require.NoError(t, guard.Call(func() error { return nil }))
	require.Equal(t, errOwn, guard.Call(func() error { return errOwn }))
	require.Equal(t, guard.ErrGoexit, guard.Call(func() error { runtime.Goexit(); return nil }))
	var p *guard.Panic
	require.ErrorAs(t, guard.Call(broken), &p)
	require.Equal(t, errOwn, p.Value)
	require.Contains(t, string(p.Stack), "guard_test.broken")
	require.ErrorAs(t, guard.Call(func() error { panic(nil) }), &p) //nolint:govet // the user's
}

// Caught returns the same, but for a Goexit.
func TestCaught(t *testing.T) {
	t.Parallel()
	require.NoError(t, guard.Caught(func() error { return nil }))
	require.Equal(t, errOwn, guard.Caught(func() error { return errOwn }))
	var p *guard.Panic
	require.ErrorAs(t, guard.Caught(broken), &p)
	require.Equal(t, errOwn, p.Value)
	require.Contains(t, string(p.Stack), "guard_test.broken")
}

// The same holds on the caller's own goroutine. A Goexit, however, ends that
// goroutine, after the outcome is known.
func TestHere(t *testing.T) {
	t.Parallel()
	for _, f := range []func() error{func() error { return nil }, func() error { return errOwn }, broken} {
		told := 0
		guard.Here(f, func(err error) { told++ })
		require.Equal(t, 1, told)
	}
	outcome := make(chan error, 2)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		guard.Here(func() error { runtime.Goexit(); return nil }, func(err error) { outcome <- err })
		outcome <- errors.New("still here")
	}()
	<-gone
	require.Equal(t, guard.ErrGoexit, <-outcome)
	require.Empty(t, outcome)
}
