//go:build unix

package objects_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Each future has the answer to its own call, whatever the order in which the
// answers come and in which they are asked for.
func TestAsyncAnswersAreMatchedByRequest(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	b, e := manage(t, m, bells, fibertest.None{}), manage(t, m, parrots, fibertest.None{})
	const n = 200
	futures := make([]*fiber.Future[string], n)
	for i := range futures {
		futures[i] = fiber.CallAsync(fibertest.Soon(t), e, repeatLate, phrase{b, fmt.Sprint(i)})
	}
	for k, i := range rand.Perm(n) {
		must(t, b, ringBell, fmt.Sprint(i))
		got, err := futures[i].Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), got)
		if k == n/2 { // half of them are not answered yet
			ready := 0
			for _, f := range futures {
				if f.Ready() {
					ready++
				}
			}
			require.Equal(t, n/2+1, ready)
		}
	}
}

type parrot struct{}

type phrase struct {
	Bell *fiber.Proxy[*bell]
	Text string
}

var (
	parrots = fiber.RegisterType("parrot", func(context.Context, fibertest.None) (parrot, error) { return parrot{}, nil }, fiber.WithConcurrentCalls())
	// repeatLate answers when a bell rings for the text.
	repeatLate = fiber.RegisterMethod("RepeatLate", func(_ parrot, ctx context.Context, in phrase) (string, error) {
		_, err := fiber.Call(ctx, in.Bell, awaitBell, in.Text)
		return in.Text, err
	})
	repeatSize = fiber.RegisterMethod("RepeatSize", func(_ parrot, _ context.Context, n int) ([]byte, error) { return make([]byte, n), nil })
)

// Answers to calls that nobody looks at harm no others.
func TestDroppedFutures(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	j, n := manage(t, m, journals, ""), manage(t, m, naughties, "")
	for i := range 1000 {
		fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{Line: i})
		fiber.CallAsync(fibertest.Soon(t), n, misbehave, "error")
		if i%100 == 0 {
			runtime.GC()
			require.Equal(t, -i, must(t, j, writeEntry, entry{Line: -i}))
			ctx, cancel := context.WithCancel(context.Background())
			fiber.CallAsync(ctx, j, writeEntry, entry{Line: i})
			cancel()
		}
	}
	require.Equal(t, 1001, must(t, n, misbehave, "count"))
}

func TestFuturesOfCalls(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	b := manage(t, m, bells, fibertest.None{})
	f := fiber.CallAsync(fibertest.Soon(t), manage(t, m, parrots, fibertest.None{}), repeatLate, phrase{b, "x"})
	told := make(chan string, 10)
	f.OnDone(func(s string, err error) { told <- s })
	_, err := f.Get(fibertest.Within(t, time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded, "that ends the waiting, not the call")
	require.False(t, f.Ready())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 3 {
				if got, err := f.Get(fibertest.Soon(t)); got != "x" || err != nil {
					t.Error(got, err)
				}
			}
		})
	}
	must(t, b, ringBell, "x")
	all.Wait()
	<-f.Done()
	require.True(t, f.Ready())
	f.OnDone(func(s string, err error) { told <- s + s })
	require.ElementsMatch(t, []string{"x", "xx"}, []string{<-told, <-told})
}

// A call that blocks, or brings much, holds up no other one.
func TestAsyncCallsOfAllSizes(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	e, b := manage(t, m, parrots, fibertest.None{}), manage(t, m, bells, fibertest.None{})
	waits := fiber.CallAsync(fibertest.Soon(t), e, repeatLate, phrase{b, "end"})
	sizes := []int{0, 1, 1000, 16 << 10, 40 << 10, 1 << 20, 10 << 20}
	var futures []*fiber.Future[[]byte]
	for range 5 {
		for _, n := range sizes {
			futures = append(futures, fiber.CallAsync(fibertest.Soon(t), e, repeatSize, n))
		}
	}
	for i, f := range futures {
		got, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Len(t, got, sizes[i%len(sizes)])
	}
	require.False(t, waits.Ready())
	must(t, b, ringBell, "end")
	_, err := waits.Get(fibertest.Soon(t))
	require.NoError(t, err)
}

// What took four seconds one after another takes one, as in the original's
// test of its AsyncManager.
func TestAsyncCallsOfFourManagers(t *testing.T) {
	t.Parallel()
	var bs []*fiber.Proxy[*bell]
	var es []*fiber.Proxy[parrot]
	for range 4 {
		m := fibertest.NewManager(t)
		bs, es = append(bs, manage(t, m, bells, fibertest.None{})), append(es, manage(t, m, parrots, fibertest.None{}))
	}
	// Each waits for the next one, and so none would end if they ran one after another.
	futures := make([]*fiber.Future[string], 4)
	for i := range futures {
		futures[i] = fiber.CallAsync(fibertest.Soon(t), es[i], repeatLate, phrase{bs[(i+1)%4], "x"})
	}
	for i := range futures {
		must(t, bs[(i+1)%4], ringBell, "x")
	}
	for _, f := range futures {
		got, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, "x", got)
	}
}

// Many calls that are given up at the same time are taken out at once.
func TestManyCallsGivenUp(t *testing.T) {
	t.Parallel()
	m := fibertest.NewManager(t)
	j, b := manage(t, m, journals, ""), manage(t, m, bells, fibertest.None{})
	first := fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{-1, b})
	must(t, b, awaitBell, "begun")
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	given, kept := make([]*fiber.Future[int], 20_000), []*fiber.Future[int]{}
	for i := range given {
		given[i] = fiber.CallAsync(ctx, j, writeEntry, entry{Line: -2})
		if i%1000 == 0 {
			kept = append(kept, fiber.CallAsync(fibertest.Soon(t), j, writeEntry, entry{Line: i}))
		}
	}
	cancel()
	for _, f := range given {
		_, err := f.Get(fibertest.Soon(t))
		require.ErrorIs(t, err, context.Canceled)
	}
	must(t, b, ringBell, "go on")
	_, err := first.Get(fibertest.Soon(t))
	require.NoError(t, err)
	for i, f := range kept {
		got, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, i*1000, got)
	}
	lines := must(t, j, readLines, fibertest.None{})
	require.Equal(t, -1, lines[0])
	require.Len(t, lines, 1+len(kept), "one that was given up was begun")
}
