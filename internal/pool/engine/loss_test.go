package engine_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

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
