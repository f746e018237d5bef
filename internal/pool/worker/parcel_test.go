package worker_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/worker"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// pool is the other end of a worker's link.
type pool struct {
	to, from chan [][]byte
}

func (p *pool) Next(bool) (wire.Kind, [][]byte, error) {
	frames, ok := <-p.to
	if !ok {
		return 0, nil, io.EOF
	}
	return wire.KindOf(frames), frames, nil
}

func (p *pool) Post(frames ...[]byte) error {
	p.from <- frames
	return nil
}

func (p *pool) Send(_ context.Context, frames ...[]byte) error { return p.Post(frames...) }

// results waits for the results of a batch that has ended.
func (p *pool) results(t *testing.T) (r wire.Results) {
	t.Helper()
	for !r.Ended {
		select {
		case frames := <-p.from:
			r = wire.Results{}
			require.NoError(t, r.Unpack(frames))
		case <-time.After(time.Minute):
			require.FailNow(t, "no results come")
		}
	}
	return r
}

// naming is the tasks of a batch of one, whose output may name an object.
type naming struct{ named any }

func (naming) Len() int                       { return 1 }
func (naming) Run(context.Context, int) error { return nil }
func (naming) Clear(int)                      {}
func (b naming) Results(_ context.Context, _, _ int) ([][]byte, any, error) {
	return [][]byte{{1}}, b.named, nil
}

func init() {
	for name, tasks := range map[string]naming{"names": {"an object"}, "plain": {}} {
		registry.Add(registry.Function, name, "", "here", &registry.Func{Name: name, Decode: func([][]byte) (registry.Tasks, error) { return tasks, nil }})
	}
}

// A worker that is told to stop ends when all the objects that its results name
// have been taken, in any order, and at once when they name none.
func TestParcels(t *testing.T) {
	t.Parallel()
	p := &pool{make(chan [][]byte, 100), make(chan [][]byte, 100)}
	w := worker.Serve(t.Context(), p, worker.Options{Concurrency: 1})
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }()
	var parcels []uint64
	for i, name := range []string{"names", "plain", "names"} {
		batch := wire.Batch{ID: uint64(i + 1), Count: 1, Func: []byte(name)}
		p.to <- batch.Pack([][]byte{{1}})
		r := p.results(t)
		require.Equal(t, name == "names", r.Parcel > 0)
		if r.Parcel > 0 {
			parcels = append(parcels, r.Parcel)
		}
	}
	p.to <- wire.MustPack(wire.KindStop, nil)
	for _, parcel := range []uint64{parcels[1], 99, parcels[0]} {
		select {
		case <-ended:
			require.Fail(t, "it has ended, and holds nothing any more")
		case <-time.After(20 * time.Millisecond):
		}
		p.to <- wire.MustPack(wire.KindTaken, wire.Taken{Parcel: parcel})
	}
	require.NoError(t, <-ended)
	close(p.to)
}
