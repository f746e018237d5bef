package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/wire"
)

// Stuck workers are replaced together, however far apart their tasks were given
// up.
func TestStuckWorkersAreReplacedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, grace, apart = 5, 5 * time.Second, 100 * time.Millisecond
		opts, started := options(n)
		opts.CancelGrace = grace
		var log bytes.Buffer
		opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		e := engine.New(opts)
		defer e.Terminate()
		go e.Up(t.Context())
		workers := up(started, n)
		_, err := e.Submit(newSource(), 2*n, false, engine.CallOptions{Func: "f", Timeout: time.Second})
		require.NoError(t, err)
		synctest.Wait()
		var last time.Time
		for _, w := range workers {
			b := w.batch(t)
			require.Equal(t, 1, b.Count)
			w.ending = "signal: killed"
			w.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: int64(time.Second), Stuck: true, Errors: []wire.TaskError{{Index: 0}}})
			last = time.Now()
			time.Sleep(apart)
		}
		time.Sleep(2 * grace)
		synctest.Wait()
		for i, w := range workers {
			require.Equal(t, last.Add(grace-time.Duration(n-1-i)*apart), w.killed, "worker %d", i)
		}
		s := e.Stats()
		require.Zero(t, s.WorkersLost, "the engine has ended them itself")
		require.NotContains(t, log.String(), "lost")
		require.Equal(t, n, bytes.Count(log.Bytes(), []byte("a worker is killed")))
		require.Contains(t, log.String(), "worker=w-3 ")
		require.Contains(t, log.String(), "5s (cancel_grace)")
		for i := range n {
			require.Contains(t, log.String(), fmt.Sprintf(`ran="task %d of f"`, i))
		}
		require.Equal(t, n, s.WorkersKilled)
	})
}

// A surplus worker whose task was given up and goes on is killed after the grace, though nothing waits for it and nothing else
// happens.
func TestResizeEndsStuckWorkers(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			opts, started := options(2)
			opts.CancelGrace = 5 * time.Second
			e := engine.New(opts)
			defer e.Terminate()
			go e.Up(t.Context())
			workers := up(started, 2)
			c, err := e.Submit(newSource(), 2, false, engine.CallOptions{Func: "f"})
			require.NoError(t, err)
			for _, w := range workers {
				w.say(t, wire.Results{Batch: w.batch(t).ID, Started: 0})
			}
			synctest.Wait()
			c.Cancel(nil)
			time.Sleep(later)
			begun := time.Now()
			require.NoError(t, e.Resize(t.Context(), 1))
			require.LessOrEqual(t, time.Since(begun), opts.CancelGrace)
			require.Equal(t, 1, e.Stats().WorkersKilled)
		})
	}
}

// A worker that is about to be killed is given nothing more, though what it ran
// ends at the last moment: what was sent there would be lost.
func TestADoomedWorkerIsGivenNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, started := options(1)
		opts.CancelGrace, opts.MaxAttempts = time.Second, 1
		e := engine.New(opts)
		defer e.Terminate()
		stuck, other := newSource(), newSource()
		_, err := e.Submit(stuck, 1, false, engine.CallOptions{Func: "f", Timeout: time.Second})
		require.NoError(t, err)
		_, err = e.Submit(other, 1, false, engine.CallOptions{Func: "g"})
		require.NoError(t, err)
		w := up(started, 1)[0]
		b := w.batch(t)
		w.dying = func() {
			w.say(t, wire.Results{Batch: b.ID, Started: -1, From: 1, Ended: true})
			for _, b := range w.batches(t) {
				w.say(t, wire.Results{Batch: b.ID, Started: 0})
			}
		}
		w.say(t, wire.Results{Batch: b.ID, Started: 0})
		w.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: int64(time.Second), Stuck: true, Errors: []wire.TaskError{{Index: 0}}})
		next := up(started, 1)[0]
		b = next.batch(t)
		require.Equal(t, "g", string(b.Func))
		next.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: 1, Ended: true})
		require.NoError(t, <-other.finished)
		require.Equal(t, map[int]int{0: 1}, other.got)
		require.Equal(t, 1, e.Stats().TasksFailed, "the one that was stuck")
	})
}

// Closing a pool that could not start does not start it once more.
func TestCloseStartsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, _ := options(3)
		starts := 0
		opts.Start = func(context.Context, string, engine.Reader) (engine.Process, error) {
			return nil, &engine.StartError{Err: errors.New("no such image"), Permanent: true}
		}
		opts.Name = func() string { starts++; return "w" }
		e := engine.New(opts)
		require.ErrorContains(t, e.Up(t.Context()), "no such image")
		synctest.Wait()
		before := starts
		e.Close()
		require.Equal(t, before, starts)
	})
}

// Close gives up what open calls have not begun and waits only for what runs.
func TestCloseEndsOpenCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, open, chunk = 2, 10, 4
		opts, started := options(n)
		e := engine.New(opts)
		go e.Up(t.Context())
		workers := up(started, n)
		var sources []*source
		for range open {
			s := newSource()
			sources = append(sources, s)
			c, err := e.Submit(s, 0, true, engine.CallOptions{Func: "f", Chunk: chunk})
			require.NoError(t, err)
			c.Extend(0, 1000)
			if len(sources) == 1 {
				c.Extend(0, 1)
			}
		}
		whole := newSource() // its input has ended: it runs to its end
		_, err := e.Submit(whole, 3, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		synctest.Wait()
		var running []wire.Batch
		for _, w := range workers {
			b := w.batch(t)
			require.Equal(t, chunk, b.Count)
			w.say(t, wire.Results{Batch: b.ID, Started: 0})
			running = append(running, b)
		}
		closed := make(chan struct{})
		go func() { e.Close(); close(closed) }()
		synctest.Wait()
		for i, w := range workers {
			require.Equal(t, wire.KindRecall, wire.KindOf(<-w.posted))
			w.handle(wire.KindReturned, wire.MustPack(wire.KindReturned, wire.Returned{Batches: []wire.Remainder{{Batch: running[i].ID, From: 1}}}))
			w.say(t, wire.Results{Batch: running[i].ID, Started: -1, Count: 1, Nanos: 1e9, Ended: true})
		}
		for range 3 {
			var w *worker
			for w == nil {
				synctest.Wait()
				for _, other := range workers {
					if len(other.posted) > 0 {
						w = other
					}
				}
			}
			b := w.batch(t)
			require.Equal(t, 1, b.Count)
			w.say(t, wire.Results{Batch: b.ID, Started: -1, Count: 1, Nanos: 1e9, Ended: true})
		}
		<-closed
		require.NoError(t, <-whole.finished)
		require.Len(t, whole.got, 3)
		delivered := 0
		for _, s := range sources {
			require.ErrorIs(t, <-s.finished, engine.ErrClosed)
			delivered += len(s.got)
		}
		require.Equal(t, n, delivered, "what ran, and nothing else")
	})
}

// The end of a worker is logged if it is a loss, and every loss is counted.
func TestOnlyALossIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*engine.Engine, *worker)
		lost int
		says string
	}{
		"it dies":            {func(_ *engine.Engine, w *worker) { w.ending = "signal: killed"; w.end() }, 1, `worker=w-1 reason="signal: killed" tasks="1 run elsewhere"`},
		"this process ends":  {func(_ *engine.Engine, w *worker) { w.told = true; w.end() }, 0, ""},
		"the pool is closed": {func(e *engine.Engine, w *worker) { w.ending = "signal: killed"; e.Terminate() }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				opts, started := options(1)
				var log bytes.Buffer
				opts.Log = slog.New(slog.NewTextHandler(&log, nil))
				e := engine.New(opts)
				defer e.Terminate()
				go e.Up(t.Context())
				w := up(started, 1)[0]
				_, err := e.Submit(newSource(), 1, false, engine.CallOptions{Func: "f"})
				require.NoError(t, err)
				synctest.Wait()
				test.end(e, w)
				synctest.Wait()
				require.Equal(t, test.lost, e.Stats().WorkersLost)
				if test.says == "" {
					require.Empty(t, log.String())
				} else {
					require.Contains(t, log.String(), test.says)
				}
			})
		})
	}
}

// A worker whose start is overtaken by the end of the pool, or of this process,
// is ended silently.
func TestAStartThatIsOvertakenIsNotReported(t *testing.T) {
	t.Parallel()
	type start = func(context.Context, string, engine.Reader) (engine.Process, error)
	for name, overtaken := range map[string]func(start) start{
		"by Close": func(begin start) start {
			return func(ctx context.Context, name string, r engine.Reader) (engine.Process, error) {
				<-ctx.Done() // too late: it is up
				p, err := begin(ctx, name, r)
				p.(*worker).ending = "signal: killed: its pool is closed"
				return p, err
			}
		},
		"by the end of this process": func(start) start {
			return func(context.Context, string, engine.Reader) (engine.Process, error) {
				return nil, &engine.StartError{Err: errors.New("no"), Ending: true}
			}
		},
		"by that end, as it initialises": func(begin start) start {
			return func(ctx context.Context, name string, r engine.Reader) (engine.Process, error) {
				p, err := begin(ctx, name, r)
				p.(*worker).told = true
				p.(*worker).end()
				return p, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				opts, _ := options(1)
				var log bytes.Buffer
				opts.Log = slog.New(slog.NewTextHandler(&log, nil))
				opts.Start = overtaken(opts.Start)
				e := engine.New(opts)
				go e.Up(t.Context())
				synctest.Wait()
				e.Close()
				require.Empty(t, log.String())
				require.Zero(t, e.Stats().WorkersLost)
			})
		})
	}
}

// When this process is told to end, Close waits for no task.
func TestCloseEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts, started := options(1)
		ending, end := context.WithCancel(t.Context())
		opts.Ending = ending
		e := engine.New(opts)
		s := newSource()
		_, err := e.Submit(s, 1, false, engine.CallOptions{Func: "f"})
		require.NoError(t, err)
		up(started, 1)[0].batch(t)
		closed := make(chan struct{})
		go func() { e.Close(); close(closed) }()
		synctest.Wait()
		require.Empty(t, s.finished, "it waits for the task")
		end()
		<-closed
		require.ErrorIs(t, <-s.finished, engine.ErrClosed)
	})
}

// A worker that has been introduced when its pool is closed is told to end, and has the grace for that.
func TestCloseMeetsAnIntroduction(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opts, _ := options(1)
			starts, introduced, told := make(chan *worker, 1), make(chan struct{}), make(chan struct{}, 1)
			opts.Start = func(ctx context.Context, name string, r engine.Reader) (engine.Process, error) {
				p := &worker{name: name, reader: r, posted: make(chan [][]byte, 10), gone: make(chan struct{}), done: make(chan struct{})}
				starts <- p
				<-introduced
				return terminated{p, func() {
					told <- struct{}{}
					if !deaf {
						p.end()
					}
				}}, nil
			}
			e := engine.New(opts)
			go e.Up(t.Context())
			p := <-starts
			begun, closed := time.Now(), make(chan struct{})
			go func() { e.Close(); close(closed) }()
			synctest.Wait()
			close(introduced)
			<-closed
			<-told
			if deaf {
				require.Equal(t, begun.Add(opts.ShutdownGrace), p.killed)
			} else {
				require.Zero(t, p.killed)
			}
		})
	}
}

// terminated is a worker that does something of its own when it is told to end.
type terminated struct {
	*worker
	obey func()
}

func (w terminated) Terminate() error { w.obey(); return nil }
