//go:build unix

package pool_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// followed keeps what an OnProgress is called with.
type followed struct {
	mu   sync.Mutex
	all  []fiber.Progress
	over chan fibertest.None // closed by the last call
}

// follow returns an option that keeps what it is told, and calls each.
func follow(t *testing.T, each func(fiber.Progress)) (*followed, fiber.CallOption) {
	f := &followed{over: make(chan fibertest.None)}
	return f, fiber.OnProgress(func(p fiber.Progress) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.all) > 0 {
			last := f.all[len(f.all)-1]
			if last.Over || last.Call != p.Call || last.Done > p.Done {
				t.Errorf("%+v after %+v", p, last)
			}
		}
		f.all = append(f.all, p)
		if p.Over {
			close(f.over)
		}
		if each != nil {
			each(p)
		}
	})
}

func (f *followed) last(t *testing.T) fiber.Progress {
	select {
	case <-f.over:
	case <-time.After(fibertest.Patience):
		require.FailNow(t, "nobody says that the call is over")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[len(f.all)-1]
}

// However a call ends, the last call of OnProgress says so.
func TestTheLastProgress(t *testing.T) {
	t.Parallel()
	numbers := fibertest.Numbers(20)
	type way struct {
		run   func(t *testing.T, pool *fiber.Pool, o fiber.CallOption)
		waits bool // the call ends after the last call of OnProgress
		done  int  // -1 for some
	}
	hour := []time.Duration{0, time.Hour}
	ways := map[string]way{
		"Map": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, numbers, o)
			require.NoError(t, err)
		}, true, 20},
		"Map of nothing": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, nil, o)
			require.NoError(t, err)
		}, true, 0},
		"a failed Map": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Fail, []string{"", "error"}, o)
			require.Error(t, err)
		}, true, 2},
		"a Map whose context ends": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			ctx, cancel := context.WithCancel(fibertest.Soon(t))
			stop := fiber.OnProgress(func(p fiber.Progress) {
				if p.Done == 1 {
					cancel()
				}
			})
			_, err := fiber.Map(ctx, pool, fibertest.Rest, hour, o, stop)
			require.ErrorIs(t, err, context.Canceled)
		}, false, 1},
		"a Map that is cancelled": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Rest, hour, o)
			f.Cancel()
		}, false, -1},
		"a Map whose pool ends": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Rest, hour, o)
			pool.Terminate()
			_, err := f.Get(fibertest.Soon(t))
			require.ErrorIs(t, err, fiber.ErrClosed)
		}, true, -1},
		"an IMap": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			for _, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, slices.Values(numbers), o) {
				require.NoError(t, err)
			}
		}, true, 20},
		"an IMap that is left": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			for range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, slices.Values(numbers), o) {
				break
			}
		}, false, -1},
		"an IMap whose input panics": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			require.Panics(t, func() {
				for range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, func(func(int) bool) { panic("no input") }, o) {
				}
			})
		}, false, 0},
		"Apply": {func(t *testing.T, pool *fiber.Pool, o fiber.CallOption) {
			_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Fail, "error", o)
			require.Error(t, err)
		}, true, 1},
	}
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, 2)
			f, o := follow(t, nil)
			w.run(t, pool, o)
			if w.waits {
				select {
				case <-f.over:
				default:
					require.Fail(t, "the last call has not come before the result")
				}
			}
			last := f.last(t)
			if w.done >= 0 {
				require.Equal(t, w.done, last.Done, "%+v", last)
			}
		})
	}
}

// A call learns of its pool's workers while no task ends.
func TestProgressOfWorkers(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	gate := fibertest.TempFile(t)
	lost, ready := make(chan fibertest.None), make(chan fibertest.None)
	f, o := follow(t, func() func(fiber.Progress) {
		tellReady, tellLost := sync.OnceFunc(func() { close(ready) }), sync.OnceFunc(func() { close(lost) })
		return func(p fiber.Progress) {
			if p.Ready == 1 && p.Lost == 0 {
				tellReady()
			}
			if p.Ready == 1 && p.Lost == 1 {
				tellLost()
			}
		}
	}())
	done := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Mark, []fibertest.Marking{{File: gate + ".begun", Gate: gate}}, o)
	<-ready
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Running == 1 }, "it runs")
	killBusy(t, pool)
	<-lost
	fibertest.OpenGate(t, gate)
	_, err := done.Get(fibertest.Soon(t))
	require.NoError(t, err)
	last := f.last(t)
	require.Equal(t, 1, last.Lost)
	require.Positive(t, last.Rate)
	require.Zero(t, last.Left)

	f, o = follow(t, nil)
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1, o)
	require.NoError(t, err)
	require.Zero(t, f.last(t).Lost, "it was lost before the call")
	require.NotEqual(t, last.Call, f.last(t).Call)
}

// Of a context that ends while OnProgress is stuck, and a failure, a call learns at once.
func TestProgressThatIsStuck(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	gate := make(chan fibertest.None)
	defer close(gate)
	for _, ins := range [][]string{{"error"}, nil} {
		ctx, cancel := context.WithCancelCause(fibertest.Soon(t))
		inside := make(chan fibertest.None, 10)
		f := fiber.MapAsync(ctx, pool, fibertest.Fail, ins, fiber.OnProgress(func(fiber.Progress) {
			inside <- fibertest.None{}
			<-gate
		}))
		<-inside
		cancel(errors.New("enough"))
		_, err := f.Get(fibertest.Soon(t))
		require.ErrorIs(t, err, context.Canceled)
	}
}
