package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// errNoRoom is the error of a start for which there is no room, as a quota's.
var errNoRoom = &engine.StartError{Err: errors.New("exceeded quota"), Permanent: true}

// house is where workers start as long as there is room. Each works off its tasks by itself.
type house struct {
	room            atomic.Int64
	starts          atomic.Int64
	admits, refuses time.Duration // how long a start takes, and a refusal
	fails           error         // what becomes of those that are admitted
}

// furnish has workers start there, of an engine that is ended with the test.
func (h *house) furnish(t *testing.T, workers int, set ...func(*engine.Options)) *engine.Engine {
	opts, started := options(workers)
	begin := opts.Start
	opts.Start = func(ctx context.Context, name string, r engine.Reader) (engine.Process, error) {
		h.starts.Add(1)
		if h.room.Add(-1) < 0 {
			h.room.Add(1)
			time.Sleep(h.refuses)
			return nil, errNoRoom
		}
		time.Sleep(h.admits)
		if h.fails != nil {
			h.room.Add(1)
			return nil, h.fails
		}
		p, err := begin(ctx, name, r)
		go h.work(t, <-started)
		return p, err
	}
	for _, f := range set {
		f(&opts)
	}
	e := engine.New(opts)
	t.Cleanup(e.Terminate)
	return e
}

// work works off what a worker is given, a second for each task, until it ends.
func (h *house) work(t *testing.T, p *worker) {
	defer h.room.Add(1)
	p.handle(wire.KindReady, wire.MustPack(wire.KindReady, nil))
	for {
		select {
		case frames := <-p.posted:
			if wire.KindOf(frames) != wire.KindBatch {
				continue
			}
			var b wire.Batch
			if err := b.Unpack(frames); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(b.Count) * time.Second)
			p.say(t, wire.Results{Batch: b.ID, Started: -1, Count: b.Count, Nanos: int64(b.Count) * int64(time.Second), Ended: true})
		case <-p.gone:
			return
		}
	}
}

// A pool of six that has room for two works with these two, whichever starts end first. It looks for more room now and then,
// with one worker at a time, and uses what there is.
func TestRoomForSomeWorkers(t *testing.T) {
	t.Parallel()
	for _, h := range []*house{{admits: time.Second}, {refuses: time.Second}, {admits: time.Second, refuses: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			const wanted = 6
			h.room.Store(2)
			e := h.furnish(t, wanted)
			for range 2 {
				s := newSource()
				_, err := e.Submit(s, 20, false, engine.CallOptions{Func: "f"})
				require.NoError(t, err)
				require.NoError(t, <-s.finished)
				require.Len(t, s.got, 20)
			}
			require.Equal(t, 2, e.Stats().Ready)
			require.ErrorIs(t, e.Stats().Failure, errNoRoom)
			before := h.starts.Load()
			time.Sleep(time.Minute)
			require.InDelta(t, 12, h.starts.Load()-before, 8, "one every five seconds")
			h.room.Store(10)
			require.NoError(t, e.Up(t.Context()))
			require.Equal(t, wanted, e.Stats().Ready)
		})
	}
}

// When nobody is left and nobody comes, all who wait get the reason, and nothing is started for them.
func TestRoomForNoWorker(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*house{"exceeded quota": {refuses: time.Second}, "the node is gone": {admits: time.Minute, fails: errors.New("the node is gone")}} {
		synctest.Test(t, func(t *testing.T) {
			if h.fails != nil {
				h.room.Store(2)
			}
			e := h.furnish(t, 6)
			up := make(chan error, 1)
			go func() { up <- e.Up(t.Context()) }()
			synctest.Wait() // else it may come after the first refusals, and try again
			s := newSource()
			_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
			require.NoError(t, err)
			require.ErrorContains(t, <-s.finished, name)
			require.ErrorContains(t, <-up, name)
			require.EqualValues(t, 6, h.starts.Load())
			time.Sleep(time.Minute)
			require.EqualValues(t, 6, h.starts.Load())
		})
	}
}

// A worker that is replaced after its task makes room for its successor by its end.
func TestRoomForOneWorkerAfterAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &house{}
		h.room.Store(1)
		e := h.furnish(t, 1, func(o *engine.Options) { o.MaxTasks = 1 })
		s := newSource()
		_, err := e.Submit(s, 5, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		require.NoError(t, <-s.finished)
		require.Len(t, s.got, 5)
	})
}
