package engine_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// The batch that a worker is given first is sent first, even if its encoding
// takes longer: a later one may be a task of hours.
func TestBatchesAreSentInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, started := newEngine(t, 2)
		go e.Up(t.Context())
		workers := up(started, 2)
		s, slow := newSource(), make(chan struct{})
		s.encode = func(lo, _ int) ([][]byte, error) {
			if lo == 1 {
				<-slow
			}
			return [][]byte{{0}}, nil
		}
		go e.Submit(s, 100, false, engine.CallOptions{Func: "f"})
		synctest.Wait()
		first, second := workers[0], workers[1]
		if len(first.posted) == 0 {
			first, second = second, first
		}
		b := first.batch(t)
		require.Equal(t, 0, b.Lo)
		first.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: 1e6, Ended: true})
		synctest.Wait()
		require.NotEmpty(t, first.posted, "more tasks are given out, to both")
		require.Empty(t, second.posted)
		close(slow)
		synctest.Wait()
		held := second.batches(t)
		require.Greater(t, len(held), 1)
		require.Equal(t, 1, held[0].Lo)
	})
}

// A batch that is abandoned while it is being encoded is followed by its
// cancellation, which spares the other tasks of its call.
func TestACancellationOnItsWaySparesWhatIsWanted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, started := options(1)
		opts.Concurrency = 3
		e := engine.New(opts)
		defer e.Terminate()
		go e.Up(t.Context())
		w := up(started, 1)[0]
		s, slow := newSource(), make(chan struct{})
		s.encode = func(lo, _ int) ([][]byte, error) {
			if lo == 2 {
				<-slow
			}
			return [][]byte{{0}}, nil
		}
		go e.Submit(s, 3, false, engine.CallOptions{Func: "f", Chunk: 1, StopOnError: true})
		synctest.Wait()
		first, second := w.batch(t), w.batch(t)
		require.Equal(t, []int{0, 1}, []int{first.Lo, second.Lo})
		w.say(t, wire.Results{Batch: second.ID, Started: -1, Count: 1, Nanos: 1e6, Ended: true, Errors: []wire.TaskError{{Index: 0}}})
		close(slow)
		synctest.Wait()
		require.Equal(t, 2, w.batch(t).Lo)
		require.NotEmpty(t, w.posted)
		for len(w.posted) > 0 {
			var c wire.Cancel
			require.NoError(t, wire.Unpack(<-w.posted, &c))
			require.Equal(t, 2, c.From, "task 0 still runs, and is wanted")
		}
	})
}
