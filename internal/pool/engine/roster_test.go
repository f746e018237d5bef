package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// forgetful is a source that does not look at what it gets.
type forgetful struct{ *source }

func (forgetful) Deliver(engine.Outcome) []int { return nil }

// BenchmarkResult measures what a task costs the engine, from a result to the next task that is handed out, when every worker has
// one. It should not grow with the number of workers.
func BenchmarkResult(b *testing.B) {
	for _, workers := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			opts, _ := options(workers)
			started := make(chan *worker, workers)
			opts.Start = func(_ context.Context, name string, r engine.Reader) (engine.Process, error) {
				p := &worker{name: name, reader: r, posted: make(chan [][]byte, 2), gone: make(chan struct{}), done: make(chan struct{})}
				started <- p
				return p, nil
			}
			e := engine.New(opts)
			defer e.Terminate()
			go e.Up(b.Context())
			all := up(started, workers)
			call, err := e.Submit(forgetful{newSource()}, 1<<40, false, engine.CallOptions{Func: "f", Encoded: true, Plain: true})
			require.NoError(b, err)
			for i := 0; b.Loop(); i++ {
				w := all[i%workers]
				var task wire.Batch
				require.NoError(b, task.Unpack(<-w.posted))
				result := wire.Results{Batch: task.ID, Count: task.Count, Started: -1, Ended: true, Nanos: int64(time.Second)}
				frames, err := result.Pack([][]byte{{0}})
				require.NoError(b, err)
				w.handle(wire.KindResults, frames)
			}
			call.Cancel(nil)
		})
	}
}

// done has the worker do the only task of a call.
func done(t *testing.T, e *engine.Engine, w *worker, s *source, opts engine.CallOptions) {
	t.Helper()
	_, err := e.Submit(s, 1, false, opts)
	require.NoError(t, err)
	w.say(t, wire.Results{Batch: w.batch(t).ID, Started: -1, Count: 1, Nanos: int64(time.Second), Ended: true})
	require.NoError(t, <-s.finished)
	synctest.Wait()
}

// encoded are the options of calls for which no tick is due.
var encoded = engine.CallOptions{Func: "f", Encoded: true, Plain: true}

// Nothing remembers a worker that has been replaced.
func TestWorkersThatHaveEndedAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, started := options(1)
		opts.MaxTasks = 1
		e := engine.New(opts)
		defer e.Terminate()
		go e.Up(t.Context())
		var all []weak.Pointer[worker]
		for range 10 {
			w := up(started, 1)[0]
			done(t, e, w, newSource(), encoded)
			all = append(all, weak.Make(w))
			time.Sleep(time.Second)
		}
		runtime.GC()
		for _, w := range all[:9] {
			require.Nil(t, w.Value())
		}
	})
}

// Nothing remembers a call that is over, although its input was slow to encode.
func TestSlowCallsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, started := newEngine(t, 1)
		go e.Up(t.Context())
		w := up(started, 1)[0]
		slow := newSource()
		slow.encode = func(int, int) ([][]byte, error) {
			time.Sleep(time.Second)
			return [][]byte{{0}}, nil
		}
		done(t, e, w, slow, engine.CallOptions{Func: "f"})
		was := weak.Make(slow)
		slow = nil
		time.Sleep(time.Hour)
		for range 2 {
			done(t, e, w, newSource(), encoded)
			time.Sleep(time.Hour)
		}
		runtime.GC()
		require.Nil(t, was.Value())
	})
}
