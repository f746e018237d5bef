package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// short returns an engine with n workers, which has learnt from a call of its
// own that the function f is short.
func short(t *testing.T, n int) (e *engine.Engine, started chan *worker, workers []*worker) {
	t.Helper()
	e, started = newEngine(t, n)
	go e.Up(t.Context())
	workers = up(started, n)
	teach(t, e, workers...)
	return e, started, workers
}

// teach teaches an engine that the function f is short.
func teach(t *testing.T, e *engine.Engine, workers ...*worker) {
	t.Helper()
	s := newSource()
	_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
	require.NoError(t, err)
	for _, p := range workers {
		for _, b := range p.batches(t) {
			p.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: 100, Ended: true})
		}
	}
	require.NoError(t, <-s.finished)
}

// Other calls do not show how long this call's tasks take: until one of them
// has returned, no worker holds more than one.
func TestWhatIsHeldIsJudgedByTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, workers := short(t, 4)
		_, err := e.Submit(newSource(), 1000, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		given := 0
		for _, want := range []int{1, len(workers)} { // the first may have done them all in a moment
			for _, p := range workers {
				for _, b := range p.batches(t) {
					require.Equal(t, 1, b.Count)
					given++
				}
			}
			require.Equal(t, want, given)
			time.Sleep(3 * time.Millisecond)
		}
	})
}

// A few short tasks wake few workers, and all the same run on as many as they
// turn out to need.
func TestShortTasksWakeFewWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, workers := short(t, 100)
		s := newSource()
		_, err := e.Submit(s, 1000, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		woken := map[*worker]bool{}
		for len(s.finished) == 0 {
			for _, p := range workers {
				for _, b := range p.batches(t) {
					woken[p] = true
					p.say(t, wire.Results{Batch: b.ID, Started: -1, Count: b.Count, Nanos: int64(100 * b.Count), Ended: true})
				}
			}
		}
		require.Equal(t, 1, len(woken))
	})
}

// While a call waits for its first result, idle workers run what others have.
func TestACallThatWaitsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, workers := short(t, 2)
		_, err := e.Submit(newSource(), 1000, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		other, err := e.Submit(newSource(), 1, false, engine.CallOptions{Func: "g"})
		require.NoError(t, err)
		defer other.Cancel()
		given := map[string]int{}
		for _, p := range workers {
			for _, b := range p.batches(t) {
				given[string(b.Func)] += b.Count
			}
		}
		require.Equal(t, map[string]int{"f": 1, "g": 1}, given)
	})
}

// A function that takes a minute does not count as short because it has had
// nothing to do once or twice.
func TestQuickTasksOfALongFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, started := newEngine(t, 1)
		go e.Up(t.Context())
		p := up(started, 1)[0]
		for _, took := range []time.Duration{time.Minute, time.Minute, 10 * time.Microsecond, 10 * time.Microsecond} {
			s := newSource()
			_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
			require.NoError(t, err)
			p.say(t, wire.Results{Batch: p.batch(t).ID, Started: -1, Count: 1, Nanos: int64(took), Ended: true})
			require.NoError(t, <-s.finished)
		}
		for range 2 {
			_, err := e.Submit(newSource(), 1, false, engine.CallOptions{Func: "f"})
			require.NoError(t, err)
		}
		require.Len(t, p.batches(t), 1, "another one waits behind it")
	})
}
