package engine_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// up waits for workers to be started and makes them report that they are ready.
func up(started chan *worker, n int) []*worker {
	var workers []*worker
	for range n {
		p := <-started
		p.handle(wire.KindReady, wire.MustPack(wire.KindReady, nil))
		workers = append(workers, p)
	}
	return workers
}

// batches returns the batches that a worker was given since the last call.
func (p *worker) batches(t *testing.T) (all []wire.Batch) {
	t.Helper()
	synctest.Wait() // others send them
	for len(p.posted) > 0 {
		if frames := <-p.posted; wire.KindOf(frames) == wire.KindBatch {
			var b wire.Batch
			require.NoError(t, b.Unpack(frames))
			all = append(all, b)
		}
	}
	return all
}

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

// The tasks that a lost worker may have started run again on all others, one by
// one: none of them waits behind another.
func TestSuspectsRunOnAllWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, started, workers := short(t, 4)
		_, err := e.Submit(newSource(), 20, false, engine.CallOptions{Func: "f", Chunk: 20})
		require.NoError(t, err)
		var lost *worker
		for _, p := range workers {
			if held := p.batches(t); len(held) > 0 {
				require.Nil(t, lost)
				require.Equal(t, 20, held[0].Count)
				require.Zero(t, held[0].Flags&wire.Announce)
				lost = p
			}
		}
		lost.end()
		workers = append(workers, up(started, 1)...)
		synctest.Wait()
		for _, p := range workers {
			held := p.batches(t)
			if p == lost {
				require.Empty(t, held)
				continue
			}
			require.Len(t, held, 1)
			require.Equal(t, 1, held[0].Count)
		}
	})
}

// A worker's tasks run elsewhere as soon as it has gone, however long it takes
// until it is known how it ended.
func TestTasksOfALostWorkerDoNotWaitForItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, started := newEngine(t, 1)
		s := newSource()
		_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		lost := up(started, 1)[0]
		require.Len(t, lost.batches(t), 1)
		lost.once.Do(func() { close(lost.gone) })
		next := up(started, 1)[0]
		synctest.Wait()
		held := next.batches(t)
		require.Len(t, held, 1)
		next.say(t, wire.Results{Batch: held[0].ID, Started: -1, Count: 1, Nanos: 1, Ended: true})
		require.NoError(t, <-s.finished)
		close(lost.done)
	})
}

// A task is started as often as is allowed in all when it is all that its
// workers run, whether its starts are announced or not.
func TestATaskIsStartedAsOftenAsIsAllowed(t *testing.T) {
	t.Parallel()
	for attempts := 1; attempts <= 5; attempts++ {
		for _, known := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				opts, started := options(1)
				opts.MaxAttempts = attempts
				e := engine.New(opts)
				defer e.Terminate()
				go e.Up(t.Context())
				w := up(started, 1)[0]
				if known { // that it is short
					teach(t, e, w)
				}
				s := newSource()
				_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
				require.NoError(t, err)
				starts := 0
				for ; len(s.finished) == 0; starts++ {
					b := w.batch(t)
					if b.Flags&wire.Announce != 0 {
						w.say(t, wire.Results{Batch: b.ID, Started: 0})
					}
					w.end()
					w = up(started, 1)[0]
					synctest.Wait()
				}
				require.Equal(t, attempts, starts)
			})
		}
	}
}

// Of the tasks that a lost worker had, of which nobody knows which ran, each runs
// alone and announced until it is delivered, even behind one that ends its worker
// again. The first loss counts for none of them.
func TestSuspectsStaySuspects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, deadly = 40, 3
		e, started, workers := short(t, 1)
		s := newSource()
		_, err := e.Submit(s, n, false, engine.CallOptions{Func: "f", Chunk: n})
		require.NoError(t, err)
		b := workers[0].batch(t)
		require.Equal(t, n, b.Count)
		workers[0].end()
		w, starts := up(started, 1)[0], 0
		for len(s.finished) == 0 {
			b := w.batch(t)
			require.NotZero(t, b.Flags&wire.Announce)
			for i := range b.Count {
				if b.Lo+i != deadly {
					continue
				}
				starts++
				w.say(t, wire.Results{Batch: b.ID, Started: i, Count: i, Nanos: 100})
				w.end()
				w, b.Count = up(started, 1)[0], 0
			}
			if b.Count > 0 {
				w.say(t, wire.Results{Batch: b.ID, Started: -1, Count: b.Count, Nanos: int64(100 * b.Count), Ended: true})
			}
			synctest.Wait()
		}
		require.Equal(t, 3, starts)
		for i := range n {
			require.Equal(t, 1, s.got[i], "task %d", i)
		}
	})
}

// Who reads of a lost worker reads what it ran.
func TestALossNamesWhatRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, started := options(1)
		opts.Concurrency = 3
		var log bytes.Buffer
		opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		e := engine.New(opts)
		defer e.Terminate()
		go e.Up(t.Context())
		w := up(started, 1)[0]
		teach(t, e, w)
		for fn, n := range map[string]int{"f": 7, "walk": 2} {
			_, err := e.Submit(newSource(), n, false, engine.CallOptions{Func: fn, Chunk: 7})
			require.NoError(t, err)
		}
		for _, b := range w.batches(t) {
			if string(b.Func) == "walk" {
				w.say(t, wire.Results{Batch: b.ID, Started: 1, Count: 1, Nanos: 100})
			}
		}
		w.end()
		synctest.Wait()
		require.Contains(t, log.String(), "task 1 of walk")
		require.Contains(t, log.String(), "one of tasks 0 to 6 of f")
	})
}
