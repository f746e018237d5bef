package worker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/pool/worker"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// task is what a task does, given its index in its call.
type task func(ctx context.Context, i int) error

// tasks are the tasks of a batch; their results are their indices.
type tasks struct {
	lo, n int
	do    task
}

func (b tasks) Len() int                             { return b.n }
func (b tasks) Run(ctx context.Context, i int) error { return b.do(ctx, b.lo+i) }
func (b tasks) Clear(int)                            {}
func (b tasks) Results(_ context.Context, lo, hi int) ([][]byte, any, []*codec.Error, error) {
	var all []byte
	for i := lo; i < hi; i++ {
		all = append(all, byte(b.lo+i))
	}
	return [][]byte{all}, nil, nil, nil
}

var (
	taskOf   sync.Map // of tests: uint64 to task
	lastTask atomic.Uint64
)

func init() {
	registry.Add(registry.Function, "do", "", "here", &registry.Func{Name: "do", Decode: func(frames [][]byte, _ int) (registry.Tasks, error) {
		do, _ := taskOf.Load(binary.LittleEndian.Uint64(frames[0]))
		return tasks{int(frames[0][8]), int(frames[0][9]), do.(task)}, nil
	}})
}

// link is a worker's connection, whose other end is a test.
type link struct {
	t    *testing.T
	in   chan [][]byte
	out  chan [][]byte
	task uint64
	took time.Duration // as the last results say
	*worker.Worker
	end  context.CancelFunc
	over sync.Once
}

func (l *link) hangUp() { l.over.Do(func() { close(l.in) }) }

var errEnd = errors.New("the end of the link")

func (l *link) Next(bool) (wire.Kind, [][]byte, error) {
	frames, ok := <-l.in
	if !ok {
		return 0, nil, errEnd
	}
	return wire.KindOf(frames), frames, nil
}
func (l *link) Post(frames ...[]byte) error                    { l.out <- frames; return nil }
func (l *link) Send(_ context.Context, frames ...[]byte) error { return l.Post(frames...) }

// tested runs a test of a worker whose tasks do what do says.
func tested(t *testing.T, concurrency int, do task, test func(t *testing.T, l *link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &link{t: t, in: make(chan [][]byte), out: make(chan [][]byte, 1000), task: lastTask.Add(1)}
		taskOf.Store(l.task, do)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		defer l.hangUp()
		l.end = end
		l.Worker = worker.Serve(ctx, l, worker.Options{Concurrency: concurrency,
			Error: func(_ string, err error) *wire.Error { return &wire.Error{Message: err.Error()} }})
		test(t, l)
	})
}

// batch hands the worker n tasks of call 1, from lo on.
func (l *link) batch(id uint64, lo, n int, flags wire.Flags, timeout time.Duration) {
	value := append(binary.LittleEndian.AppendUint64(nil, l.task), byte(lo), byte(n))
	b := wire.Batch{ID: id, Call: 1, Lo: lo, Count: n, Func: []byte("do"), Flags: flags, Timeout: int64(timeout)}
	l.in <- b.Pack([][]byte{value})
}

func (l *link) say(kind wire.Kind, what any) { l.in <- wire.MustPack(kind, what) }

// results is the next message, which is a Results.
func (l *link) results() (r wire.Results, value []byte) {
	l.t.Helper()
	frames := <-l.out
	require.NoError(l.t, r.Unpack(frames))
	l.took, r.Nanos = time.Duration(r.Nanos), 0
	if len(frames) > 1 {
		value = frames[1]
	}
	return r, value
}

func (l *link) returned() (r wire.Returned) {
	l.t.Helper()
	frames := <-l.out
	require.Equal(l.t, wire.KindReturned, wire.KindOf(frames))
	require.NoError(l.t, wire.Unpack(frames, &r))
	return r
}

// quiet checks that no more messages come.
func (l *link) quiet() {
	l.t.Helper()
	synctest.Wait()
	require.Empty(l.t, l.out)
}

// stop ends the worker when it has nothing to do.
func (l *link) stop() {
	l.t.Helper()
	l.say(wire.KindStop, nil)
	require.NoError(l.t, l.Wait())
}

func sleep(d time.Duration) task {
	return func(context.Context, int) error { time.Sleep(d); return nil }
}

// untilCancelled is a task that runs until its context ends.
func untilCancelled(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }

func TestTasksOfABatchRunInOrder(t *testing.T) {
	var order []int
	tested(t, 1, func(_ context.Context, i int) error { order = append(order, i); return nil }, func(t *testing.T, l *link) {
		l.batch(7, 10, 5, 0, 0)
		r, value := l.results()
		require.Equal(t, wire.Results{Batch: 7, Count: 5, Started: -1, Ended: true}, r)
		require.Equal(t, []byte{10, 11, 12, 13, 14}, value)
		require.Equal(t, []int{10, 11, 12, 13, 14}, order)
		l.stop()
	})
}

// Finished results are sent while the next task still runs.
func TestResultsDoNotWaitForALongTask(t *testing.T) {
	tested(t, 1, func(_ context.Context, i int) error {
		if i >= 3 {
			time.Sleep(10*time.Second + time.Millisecond)
		}
		return nil
	}, func(t *testing.T, l *link) {
		for range 2 {
			l.batch(1, 0, 5, 0, 0)
			begun := time.Now()
			r, _ := l.results()
			require.Equal(t, wire.Results{Batch: 1, Count: 3, Started: -1}, r)
			require.Less(t, time.Since(begun), 10*time.Millisecond)
			r, _ = l.results()
			require.Equal(t, wire.Results{Batch: 1, From: 3, Count: 1, Started: -1}, r)
			require.Less(t, time.Since(begun), 11*time.Second)
			r, _ = l.results()
			require.Equal(t, wire.Results{Batch: 1, From: 4, Count: 1, Started: -1, Ended: true}, r)
			time.Sleep(time.Second) // the flushing has ended
		}
		l.stop()
	})
}

// A task that was wrongly thought to be short is announced, and does not keep
// the worker from reading, whichever goroutine runs it.
func TestTaskThatIsNotShort(t *testing.T) {
	for _, flags := range []wire.Flags{0, wire.Inline} {
		tested(t, 2, untilCancelled, func(t *testing.T, l *link) {
			for range 3 { // also when the looking after has ended in between
				l.batch(1, 0, 1, flags, 0)
				begun := time.Now()
				r, _ := l.results()
				require.Equal(t, wire.Results{Batch: 1, Started: 0}, r)
				require.Less(t, time.Since(begun), 20*time.Millisecond)
				time.Sleep(10 * time.Second)
				l.batch(2, 1, 1, flags, 0)
				r, _ = l.results()
				require.Equal(t, wire.Results{Batch: 2, Started: 0}, r)
				time.Sleep(10 * time.Second)
				l.quiet() // each is said once
				l.say(wire.KindCancel, wire.Cancel{Call: 1})
				for range 2 {
					r, _ = l.results()
					require.True(t, r.Ended)
					require.Equal(t, 1, r.Count)
				}
				time.Sleep(time.Second)
			}
			l.stop()
		})
	}
}

// Announced starts are reported one by one, each before its task begins.
func TestAnnouncements(t *testing.T) {
	ran := 0
	tested(t, 1, func(context.Context, int) error { ran++; return nil }, func(t *testing.T, l *link) {
		l.batch(1, 0, 3, wire.Announce, 0)
		for i := range 3 {
			r, _ := l.results()
			require.Equal(t, i, r.Started)
			require.Equal(t, min(i, 1), r.Count, "with the outcome of the one before")
		}
		r, _ := l.results()
		require.True(t, r.Ended)
		require.Equal(t, 3, ran)
		l.stop()
	})
}

// The start of a task that begins as it comes is not reported, however long the task takes. That of another one is, late.
func TestBegun(t *testing.T) {
	for flags, reports := range map[wire.Flags]int{wire.Begun: 0, 0: 1} {
		tested(t, 1, sleep(time.Second), func(t *testing.T, l *link) {
			l.batch(1, 0, 1, flags, 0)
			for range reports {
				r, _ := l.results()
				require.Equal(t, wire.Results{Batch: 1}, r)
			}
			r, _ := l.results()
			require.Equal(t, wire.Results{Batch: 1, Count: 1, Started: -1, Ended: true}, r)
			l.stop()
		})
	}
}

// A pool that goes on handing out batches, whatever the worker holds, ends the worker.
func TestBatchesWithoutEnd(t *testing.T) {
	tested(t, 1, untilCancelled, func(t *testing.T, l *link) {
		const most = 1024
		for id := range uint64(1 + most) {
			l.batch(id, 0, 1, 0, 0)
		}
		l.quiet()
		l.batch(1+most, 0, 1, 0, 0)
		require.ErrorIs(t, l.Wait(), wire.ErrMalformed)
		l.Abort()
		l.end()
	})
}

// A recall takes what has not been started, from running and from waiting
// batches.
func TestRecall(t *testing.T) {
	tested(t, 1, sleep(time.Second), func(t *testing.T, l *link) {
		l.batch(1, 0, 10, 0, 0)
		l.batch(2, 10, 10, 0, 0)
		time.Sleep(2500 * time.Millisecond) // two are done, the third runs
		l.say(wire.KindRecall, nil)
		done := 0
		for {
			frames := <-l.out
			if wire.KindOf(frames) == wire.KindReturned {
				var back wire.Returned
				require.NoError(t, wire.Unpack(frames, &back))
				require.Equal(t, []wire.Remainder{{Batch: 1, From: 3}, {Batch: 2}}, back.Batches)
				break
			}
			var r wire.Results
			require.NoError(t, r.Unpack(frames))
			done += r.Count
		}
		require.Equal(t, 2, done)
		l.say(wire.KindRecall, nil)
		require.Empty(t, l.returned().Batches, "it is given back once")
		r, value := l.results()
		require.Equal(t, wire.Results{Batch: 1, From: 2, Count: 1, Started: -1, Ended: true}, r)
		require.Equal(t, []byte{2}, value)
		l.stop()
	})
}

// A cancellation ends the tasks from an index on: running ones by their
// context, waiting ones by never starting.
func TestCancel(t *testing.T) {
	tested(t, 2, func(ctx context.Context, i int) error {
		if i == 0 {
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}
		return untilCancelled(ctx, i)
	}, func(t *testing.T, l *link) {
		l.batch(1, 0, 1, wire.Announce, 0)
		l.batch(2, 1, 1, wire.Announce, 0)
		l.batch(3, 2, 1, wire.Announce, 0) // waits
		for range 2 {
			l.results()
		}
		l.say(wire.KindCancel, wire.Cancel{Call: 1, From: 1})
		ended := map[uint64]bool{}
		for range 2 {
			r, _ := l.results()
			require.True(t, r.Ended)
			ended[r.Batch] = true
		}
		require.Equal(t, map[uint64]bool{2: true, 3: true}, ended)
		r, _ := l.results()
		require.Equal(t, wire.Results{Batch: 1, Count: 1, Started: -1, Ended: true}, r, "it was before that")
		l.stop()
	})
}

// A task that ignores its timeout fails; the tasks behind it are given back,
// once, and its eventual result is dropped.
func TestTaskThatDoesNotHeedItsTime(t *testing.T) {
	for _, recalled := range []bool{false, true} {
		tested(t, 1, sleep(10*time.Second), func(t *testing.T, l *link) {
			l.batch(1, 0, 3, 0, 500*time.Millisecond)
			if recalled {
				time.Sleep(100 * time.Millisecond)
				l.say(wire.KindRecall, nil)
				require.Equal(t, []wire.Remainder{{Batch: 1, From: 1}}, l.returned().Batches)
			}
			r, _ := l.results()
			require.Equal(t, wire.Results{Batch: 1, Started: -1}, r)
			if !recalled {
				require.Equal(t, []wire.Remainder{{Batch: 1, From: 1}}, l.returned().Batches)
			}
			r, _ = l.results()
			require.True(t, r.Stuck)
			require.Len(t, r.Errors, 1)
			require.GreaterOrEqual(t, l.took, 500*time.Millisecond)
			require.Contains(t, r.Errors[0].Err.Message, "timed out after 500ms")
			r, value := l.results()
			require.Equal(t, wire.Results{Batch: 1, From: 1, Started: -1, Ended: true}, r)
			require.Empty(t, value)
			l.stop()
		})
	}
}

// The first failure stops a batch with StopOnError; others go on. A panic and
// the end of the goroutine are failures as well.
func TestFailures(t *testing.T) {
	for name, failing := range map[string]func() error{
		"an error": func() error { return errors.New("it failed") },
		"a panic":  func() error { panic("it failed") },
		"Goexit":   func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, flags := range []wire.Flags{0, wire.StopOnError, wire.Inline} {
				ran := 0
				tested(t, 1, func(_ context.Context, i int) error {
					if ran++; i == 1 {
						return failing()
					}
					return nil
				}, func(t *testing.T, l *link) {
					l.batch(1, 0, 4, flags, 0)
					var errs []wire.TaskError
					done := 0
					for ended := false; !ended; {
						r, _ := l.results()
						errs, done, ended = append(errs, r.Errors...), done+r.Count, r.Ended
					}
					require.Len(t, errs, 1)
					require.Equal(t, 1, errs[0].Index)
					want := map[wire.Flags]int{0: 4, wire.StopOnError: 2, wire.Inline: 4}[flags]
					require.Equal(t, want, done)
					require.Equal(t, want, ran)
					l.batch(2, 5, 1, flags, 0) // it still works
					r, _ := l.results()
					require.Equal(t, uint64(2), r.Batch)
					require.Empty(t, r.Errors)
					l.stop()
				})
			}
		})
	}
}

// A leaving worker gives back what it has not started, takes nothing more, and
// ends when the pool stops it.
func TestLeave(t *testing.T) {
	tested(t, 1, sleep(time.Second), func(t *testing.T, l *link) {
		l.batch(1, 0, 2, 0, 0)
		synctest.Wait()
		l.Leave()
		require.Equal(t, wire.Returned{Batches: []wire.Remainder{{Batch: 1, From: 1}}, Leaving: true}, l.returned())
		l.batch(2, 2, 1, 0, 0)
		require.Equal(t, []wire.Remainder{{Batch: 2}}, l.returned().Batches)
		r, _ := l.results()
		require.Equal(t, wire.Results{Batch: 1, Count: 1, Started: -1, Ended: true}, r)
		l.batch(3, 3, 1, 0, 0) // was on its way
		require.Equal(t, []wire.Remainder{{Batch: 3}}, l.returned().Batches)
		l.stop()
		require.NoError(t, l.Wait())
	})
}

// Nothing that functions return after an abort is sent.
func TestAbort(t *testing.T) {
	tested(t, 2, untilCancelled, func(t *testing.T, l *link) {
		l.batch(1, 0, 1, wire.Inline, 0)
		l.batch(2, 1, 3, 0, 0)
		l.batch(3, 4, 1, 0, 0) // waits
		synctest.Wait()
		l.Abort()
		l.end()
		require.NoError(t, l.Wait())
		l.quiet()
	})
}

func TestLinkThatEnds(t *testing.T) {
	tested(t, 1, sleep(time.Second), func(t *testing.T, l *link) {
		l.batch(1, 0, 1, 0, 0)
		l.hangUp()
		require.Equal(t, errEnd, l.Wait())
		l.results() // the task's start
		l.results() // and its end
	})
}
