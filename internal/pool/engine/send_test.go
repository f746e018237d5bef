package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

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

// A batch that is abandoned while it is being encoded is not sent, and its place
// is free at once. Other tasks of its call go on.
func TestWhatIsAbandonedAsItIsEncodedIsNotSent(t *testing.T) {
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
		for range 2 {
			go e.Submit(newSource(), 1, false, engine.CallOptions{Func: "g"})
			require.Equal(t, "g", string(w.batch(t).Func))
		}
		close(slow)
		synctest.Wait()
		for len(w.posted) > 0 {
			frames := <-w.posted
			require.Equal(t, wire.KindCancel, wire.KindOf(frames))
			var c wire.Cancel
			require.NoError(t, wire.Unpack(frames, &c))
			require.Equal(t, 2, c.From, "task 0 still runs, and is wanted")
		}
	})
}

// What waits behind an input that takes long to encode goes to other workers.
func TestNothingWaitsBehindASlowEncoder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, started, workers := short(t, 2)
		s, slow := newSource(), make(chan struct{})
		s.encode = func(int, int) ([][]byte, error) {
			<-slow
			return [][]byte{{0}}, nil
		}
		_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "slow"})
		require.NoError(t, err)
		other := newSource()
		_, err = e.Submit(other, 100, false, engine.CallOptions{Func: "f", Chunk: 1})
		require.NoError(t, err)
		for len(other.finished) == 0 {
			for _, w := range workers {
				for _, b := range w.batches(t) {
					w.say(t, wire.Results{Batch: b.ID, Started: -1, Count: b.Count, Nanos: int64(100 * b.Count), Ended: true})
				}
			}
			time.Sleep(time.Millisecond)
		}
		require.Empty(t, s.finished)
		require.Empty(t, started)
		close(slow)
	})
}

// Nor does what is in front of it wait, whoever encodes, and whatever becomes of what was to follow at once.
func TestNothingWaitsForASlowEncoder(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"without methods of the user's": true, "of the user's": false} {
		synctest.Test(t, func(t *testing.T) {
			opts, started := options(1)
			opts.Concurrency = 3
			e := engine.New(opts)
			defer e.Terminate()
			held := func() (*source, chan struct{}) {
				s, hold := newSource(), make(chan struct{})
				s.encode = func(int, int) ([][]byte, error) { <-hold; return [][]byte{{0}}, nil }
				return s, hold
			}
			submit := func(s *source, plain bool) *engine.Call {
				c, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f", Plain: plain})
				require.NoError(t, err)
				synctest.Wait()
				return c
			}
			go e.Up(t.Context())
			w := up(started, 1)[0]
			done(t, e, w, newSource(), engine.CallOptions{Func: "f"})
			begun := time.Now()
			first, hold := held()
			submit(first, false)
			second, holdSecond := held()
			submit(second, false)
			third := submit(newSource(), true) // seems to follow at once
			close(hold)
			synctest.Wait()
			third.Cancel(nil)
			slow, holdSlow := held()
			submit(slow, plain)
			close(holdSecond)
			for range 2 {
				w.batch(t)
			}
			require.Equal(t, begun, time.Now(), name)
			close(holdSlow)
			w.batch(t)
		})
	}
}

// Workers are sent their tasks at a time, however long each takes to encode, and
// the caller, its next call and what others have to say wait for none of that.
func TestEncodersHoldUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, long = 8, 30 * time.Second
		e, started := newEngine(t, n)
		go e.Up(t.Context())
		workers := up(started, n)
		begun := time.Now()
		slow := newSource()
		slow.encode = func(int, int) ([][]byte, error) {
			time.Sleep(long)
			return [][]byte{{0}}, nil
		}
		call, err := e.Submit(slow, 3*n, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		require.Equal(t, begun, time.Now(), "Submit does not encode")
		for range 2 {
			before := time.Now()
			for _, w := range workers {
				b := w.batch(t)
				require.Less(t, time.Since(before), long+time.Second, "others were encoded first")
				w.say(t, wire.Results{Batch: b.ID, Started: -1, Count: b.Count, Nanos: int64(time.Minute), Ended: true})
			}
		}
		before := time.Now()
		call.Cancel(nil)
		require.Equal(t, before, time.Now(), "Cancel does not encode")
		time.Sleep(2 * long) // those that encode end
	})
}

// What waits behind an encoding that takes long for once is sent by others.
func TestASuddenlySlowEncoderHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, long = 4, 30 * time.Second
		e, started := newEngine(t, n)
		go e.Up(t.Context())
		workers := up(started, n)
		s := newSource()
		s.encode = func(lo, _ int) ([][]byte, error) {
			if lo >= n {
				time.Sleep(long)
			}
			return [][]byte{{0}}, nil
		}
		call, err := e.Submit(s, n, true, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		defer call.Cancel(nil)
		for _, w := range workers {
			w.say(t, wire.Results{Batch: w.batch(t).ID, Started: -1, Count: 1, Nanos: int64(time.Minute), Ended: true})
		}
		begun := time.Now()
		go call.Extend(0, n)
		for _, w := range workers {
			require.Equal(t, 1, w.batch(t).Count)
			require.Less(t, time.Since(begun), long+time.Second, "others were encoded first")
		}
	})
}
