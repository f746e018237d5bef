package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

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
			opts.Start = func(_ context.Context, name string, handle func(wire.Kind, [][]byte), _ func() bool) (engine.Process, error) {
				p := &worker{name: name, handle: handle, posted: make(chan [][]byte, 2), gone: make(chan struct{}), done: make(chan struct{})}
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
			call.Cancel()
		})
	}
}
