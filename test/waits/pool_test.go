//go:build unix

package waits_test

import (
	"context"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/test/fibertest"
)

// linger is a task that waits until it is cancelled.
var linger = fiber.Register("linger", func(ctx context.Context, b []byte) (int, error) {
	<-ctx.Done()
	return len(b), ctx.Err()
})

// lingerBoth is linger for two.
var lingerBoth = fiber.Register("lingerBoth", func(ctx context.Context, _ [2]*fiber.Shared[int]) (*fiber.Shared[int], error) {
	<-ctx.Done()
	return nil, ctx.Err()
})

func shareSoon(t *testing.T, v int) *fiber.Shared[int] {
	s, err := fiber.Share(fibertest.Soon(t), v)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// onWorker is a stage whose peer is the worker of a pool, and the others have
// it run very short tasks.
func onWorker(t *testing.T) *stage {
	s := &stage{pool: fibertest.NewPool(t, 1, fiber.WithMaxAttempts(1), fiber.WithConcurrency(16))}
	s.pid = hosted(t, s, fibertest.Getpid, fibertest.None{})
	s.busy = func(ctx context.Context) error { return only(fiber.Apply(ctx, s.pool, fibertest.Square, 1)) }
	return s
}

func ofPool(name string, call func(context.Context, *fiber.Pool, []byte) error) row {
	return row{name: name, kind: waitsWith, at: onWorker, once: true, make: func(_ *testing.T, s *stage) trial {
		return trial{call: func(ctx context.Context) error { return call(ctx, s.pool, s.value()) }}
	}}
}

// last is the error that a loop ends with.
func last(all iter.Seq2[int, error]) (err error) {
	for _, err = range all {
	}
	return err
}

// ofFuture is a row about waiting until the future of a task is done, however it ends.
func ofFuture(name string, call func(context.Context, *fiber.Future[int]) error) row {
	return row{name: name, kind: waits, at: onWorker, make: ofTask(call), once: true, but: map[situation]outcome{killed: is("nil"), ended: is("nil")}}
}

// ofTask makes the future of a task that does not end by itself.
func ofTask(call func(context.Context, *fiber.Future[int]) error) func(*testing.T, *stage) trial {
	return func(t *testing.T, s *stage) trial {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		f := fiber.ApplyAsync(ctx, s.pool, linger, nil)
		return trial{call: func(ctx context.Context) error { return call(ctx, f) }}
	}
}

// ofEvents is a row about a loop over what happens.
func ofEvents(name string, of func(*fiber.Pool) func(context.Context) iter.Seq2[event.Event, error]) row {
	return row{name: name, kind: waits, at: onWorker, make: func(_ *testing.T, s *stage) trial {
		return trial{call: func(ctx context.Context) (err error) {
			for _, err = range of(s.pool)(ctx) {
			}
			return err
		}}
	}, but: map[situation]outcome{killed: never("that is an event"), ended: never("that is an event")}}
}

var pools = []row{
	ofPool("Apply", func(ctx context.Context, p *fiber.Pool, v []byte) error { return only(fiber.Apply(ctx, p, linger, v)) }),
	ofPool("ApplyAsync", func(ctx context.Context, p *fiber.Pool, v []byte) error {
		return only(fiber.ApplyAsync(ctx, p, linger, v).Get(context.Background()))
	}),
	{name: "Go", kind: waitsWith, at: onHere, make: func(t *testing.T, s *stage) trial {
		return trial{call: func(ctx context.Context) error {
			return only(fiber.Go(ctx, linger, s.value()).Get(context.Background()))
		}}
	}, but: nothingBut(meanwhile, "its process begins with it")},
	ofPool("Map", func(ctx context.Context, p *fiber.Pool, v []byte) error {
		return only(fiber.Map(ctx, p, linger, [][]byte{v}))
	}),
	ofPool("MapAsync", func(ctx context.Context, p *fiber.Pool, v []byte) error {
		return only(fiber.MapAsync(ctx, p, linger, [][]byte{v}).Get(context.Background()))
	}),
	{name: "Reduce", kind: waits, at: onWorker, once: true, make: func(t *testing.T, s *stage) trial {
		pair := []*fiber.Shared[int]{shareSoon(t, 1), shareSoon(t, 2)}
		return trial{call: func(ctx context.Context) error { return only(fiber.Reduce(ctx, s.pool, lingerBoth, pair)) }}
	}},
	ofPool("IMap", func(ctx context.Context, p *fiber.Pool, v []byte) error {
		return last(fiber.IMap(ctx, p, linger, slices.Values([][]byte{v})))
	}),
	ofPool("IMapUnordered", func(ctx context.Context, p *fiber.Pool, v []byte) error {
		return last(fiber.IMapUnordered(ctx, p, linger, slices.Values([][]byte{v})))
	}),
	ofPool("Results", func(ctx context.Context, p *fiber.Pool, v []byte) error {
		for r, err := range fiber.Results(ctx, p, linger, slices.Values([][]byte{v})) {
			if err != nil {
				return err
			}
			return r.Err
		}
		return nil
	}),
	{name: "Future.Get", how: "of a task", kind: waits, at: onWorker, make: ofTask(func(ctx context.Context, f *fiber.Future[int]) error {
		return only(f.Get(ctx))
	})},
	ofFuture("Wait", func(ctx context.Context, f *fiber.Future[int]) error { return only(fiber.Wait(ctx, 1, f)) }),
	ofFuture("AsCompleted", func(ctx context.Context, f *fiber.Future[int]) error {
		for _, err := range fiber.AsCompleted(ctx, f) {
			return err
		}
		return nil
	}),
	ofEvents("Events", func(*fiber.Pool) func(context.Context) iter.Seq2[event.Event, error] { return fiber.Events }),
	ofEvents("Pool.Events", func(p *fiber.Pool) func(context.Context) iter.Seq2[event.Event, error] { return p.Events }),
	{name: "Pool.WaitUntilWorkersUp", kind: waits, at: onHere, make: func(t *testing.T, s *stage) trial {
		file := fibertest.TempFile(t)
		pool := fibertest.NewPool(t, 1, fiber.WithInitializer(settle, file))
		up(t, s, file, 1, pool.WaitUntilWorkersUp)
		t.Cleanup(pool.Terminate)
		return trial{call: pool.WaitUntilWorkersUp}
	}, but: starting},
	{name: "Pool.Shutdown", kind: waits, at: onHere, once: true, make: func(t *testing.T, s *stage) trial {
		pool := fibertest.NewPool(t, 1)
		s.pid = fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{}))(t)
		fiber.ApplyAsync(context.Background(), pool, linger, nil)
		return trial{call: pool.Shutdown}
	}, but: starting},
	{name: "Manager.Shutdown", kind: asks, at: onHere, once: true, make: func(t *testing.T, s *stage) trial {
		m := fibertest.NewManager(t)
		s.pid = m.PID()
		return trial{call: m.Shutdown}
	}, but: map[situation]outcome{killed: is("nil"), ended: is("nil")}},
	{name: "Pool.Resize", kind: waits, at: onHere, make: func(t *testing.T, s *stage) trial {
		file := fibertest.TempFile(t)
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		pool := fibertest.NewPool(t, 1, fiber.WithInitializer(settleSecond, file))
		fibertest.Warm(t, pool)
		resize := func(ctx context.Context) error { return pool.Resize(ctx, 2) }
		up(t, s, file, 2, resize)
		t.Cleanup(pool.Terminate)
		return trial{call: resize}
	}, but: starting},
}

var starting = map[situation]outcome{
	beside: never("a worker that is not up yet has no other users"),
	killed: never("the pool starts another worker"),
	ended:  never("the pool starts another worker"),
}

// settle is an initializer that says that it runs, and does not return.
var settle = fiber.Register("settle", func(ctx context.Context, file string) (fibertest.None, error) {
	if err := (fibertest.Marking{File: file, Line: strconv.Itoa(os.Getpid())}).Append(); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	return fibertest.None{}, ctx.Err()
})

// settleSecond is settle in a pool's second worker.
var settleSecond = fiber.Register("settleSecond", func(ctx context.Context, file string) (fibertest.None, error) {
	if err := os.Mkdir(file+".first", 0o755); err == nil {
		return fibertest.None{}, fibertest.Marking{File: file, Line: "first"}.Append()
	}
	return settle.Call(ctx, file)
})

// up has a worker start, for whoever waits for it, until the nth has said that it
// is there.
func up(t *testing.T, s *stage, file string, n int, wait func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); wait(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	fibertest.Eventually(t, patience, func() bool { return len(fibertest.Lines(t, file)) == n }, "the worker is up")
	pid, err := strconv.Atoi(fibertest.Lines(t, file)[n-1])
	require.NoError(t, err)
	s.pid = pid
}

// started is a process that waits for its end.
func started(t *testing.T, s *stage) *fiber.Process {
	t.Helper()
	p := fiber.NewProcess(fibertest.Rest, time.Hour)
	fibertest.Begin(t, p)
	s.pid = p.PID()
	return p
}

// exits are the situations of waiting for a process that ends in some way.
func exits(is outcome) map[situation]outcome {
	return map[situation]outcome{beside: never("nobody else waits on a connection for it"), killed: is, ended: is}
}

var processes = []row{
	{name: "Process.Join", kind: waits, at: onHere, make: func(t *testing.T, s *stage) trial {
		return trial{call: started(t, s).Join}
	}, but: exits(is("exit"))},
	{name: "Process.Logs", kind: waits, at: onHere, make: func(t *testing.T, s *stage) trial {
		p := started(t, s)
		return trial{call: func(ctx context.Context) error {
			logs, err := p.Logs(ctx)
			if err != nil {
				return err
			}
			defer logs.Close()
			return only(io.ReadAll(logs))
		}}
	}, but: exits(is("nil"))},
	{name: "Command", kind: waits, at: onHere, make: func(t *testing.T, s *stage) trial {
		file := fibertest.TempFile(t)
		return trial{call: func(ctx context.Context) error {
			return fiber.Command(ctx, "sh", "-c", "echo $$ >"+file+"; exec sleep 1000").Run()
		}, waits: s.finds(t, file)}
	}, but: map[situation]outcome{
		meanwhile: is("signal"), beside: never("it uses no connection"), stopped: is("signal"), killed: is("signal"), ended: is("signal"),
	}, once: true},
	{name: "Func.Call", kind: waits, at: onHere, make: func(*testing.T, *stage) trial {
		return trial{call: func(ctx context.Context) error { return only(linger.Call(ctx, nil)) }}
	}, but: map[situation]outcome{
		beside: never("it runs here"), stopped: never("it runs here"), killed: never("it runs here"), ended: never("it runs here"),
	}},
}
