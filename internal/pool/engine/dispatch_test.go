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

// A long task is announced unless it begins as it comes to a worker that runs several: alone, in a slot that is free. One that
// must never run again always is.
func TestWhatIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slots, chunk, attempts int
		flags                  wire.Flags
	}{{2, 1, 3, wire.Begun}, {2, 2, 3, wire.Announce}, {2, 1, 1, wire.Announce}, {1, 1, 3, wire.Announce}} {
		synctest.Test(t, func(t *testing.T) {
			opts, started := options(1)
			opts.Concurrency, opts.MaxAttempts = c.slots, c.attempts
			e := engine.New(opts)
			defer e.Terminate()
			go e.Up(t.Context())
			w := up(started, 1)[0]
			done(t, e, w, newSource(), engine.CallOptions{Func: "f"}) // in a second
			_, err := e.Submit(newSource(), 2, false, engine.CallOptions{Func: "f", Chunk: c.chunk})
			require.NoError(t, err)
			require.Equal(t, c.flags, w.batch(t).Flags&(wire.Announce|wire.Begun), "%+v", c)
		})
	}
}

// A task that is not announced counts as running from when it was sent, and not from when it was handed out.
func TestSinceWhenATaskRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, started := options(1)
		opts.Concurrency = 2
		e := engine.New(opts)
		defer e.Terminate()
		go e.Up(t.Context())
		w := up(started, 1)[0]
		done(t, e, w, newSource(), engine.CallOptions{Func: "f"})
		s := newSource()
		s.encode = func(int, int) ([][]byte, error) { time.Sleep(time.Minute / 2); return [][]byte{{0}}, nil }
		_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		require.Equal(t, wire.Begun, w.batch(t).Flags)
		synctest.Wait()
		running := e.Stats().Workers[0].Running
		require.Len(t, running, 1)
		require.Equal(t, time.Now(), running[0].Since)
	})
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
		defer other.Cancel(nil)
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

// Of the workers that could begin a task at once, one is preferred that has what the task refers to; none that could not.
func TestWorkersAreNear(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			opts, started := options(4)
			opts.Concurrency = concurrency
			e := engine.New(opts)
			t.Cleanup(e.Terminate)
			go e.Up(t.Context())
			workers := up(started, 4)
			synctest.Wait()
			has := map[string]int{} // by a worker's name
			var asked []int
			run := func(tasks int) (on []*worker) {
				asked = nil
				_, err := e.Submit(newSource(), tasks, false, engine.CallOptions{Func: "f", Chunk: 1, Near: func(task int) (func(string) int, int) {
					asked = append(asked, task)
					return func(worker string) int { return has[worker] }, 3
				}})
				require.NoError(t, err)
				for _, p := range workers {
					for range p.batches(t) {
						on = append(on, p)
					}
				}
				return on
			}
			has[workers[1].name], has[workers[2].name] = 1, 2
			require.Equal(t, []*worker{workers[2]}, run(1), "it has more than the others")
			require.Equal(t, []*worker{workers[1]}, run(1), "it is idle")
			has[workers[3].name] = 0
			idle := run(2)
			require.ElementsMatch(t, []*worker{workers[0], workers[3]}, idle, "the others are busy")
			require.Equal(t, []int{0}, asked, "of the last one there was no choice")
			if concurrency == 1 {
				require.Empty(t, run(1), "all are")
				return
			}
			has[workers[0].name] = 3
			require.Equal(t, []*worker{workers[0]}, run(1))
			require.Equal(t, []*worker{workers[2]}, run(1), "it has the most of those with a free slot")
		})
	}
}
