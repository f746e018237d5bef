//go:build unix

package objects_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// ends are both ends of one pipe.
type ends struct {
	A, B *fiber.Conn[int]
}

var handBoth = fiber.Register("handBoth", func(ctx context.Context, e ends) (fibertest.None, error) {
	if err := e.A.Send(ctx, 1); err != nil {
		return fibertest.None{}, err
	}
	_, err := e.B.Recv(ctx)
	return fibertest.None{}, err
})

func TestBothEndsToOneChild(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[int](t)
	p := fiber.NewProcess(handBoth, ends{a, b})
	fibertest.Begin(t, p)
	require.NoError(t, p.Join(fibertest.Soon(t)))
	require.ErrorIs(t, a.Send(fibertest.Soon(t), 1), fiber.ErrClosed)
	err := b.Send(fibertest.Soon(t), 1)
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.EqualError(t, err, "fiber: this end of the pipe was closed, or belongs to another process now")
}

type kept struct {
	End *fiber.Conn[int]
	Up  *fiber.SimpleQueue[int]
}

// keepEnd has an end and does nothing with it.
var keepEnd = fiber.Register("keepEnd", func(ctx context.Context, k kept) (fibertest.None, error) {
	if err := k.Up.Put(ctx, 1); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	runtime.KeepAlive(k)
	return fibertest.None{}, ctx.Err()
})

// The process in which a pipe was made ends; both ends are elsewhere.
func TestEndOfThePipesHome(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, 1)
			e, err := fiber.Apply(fibertest.Soon(t), pool, makeEnds, fibertest.None{})
			require.NoError(t, err)
			require.NoError(t, e.A.Send(fibertest.Soon(t), 1))
			receives(t, e.B, 1)
			require.NoError(t, e.A.Send(fibertest.Soon(t), 2))
			fibertest.Eventually(t, fibertest.Patience, func() bool { return e.A.Send(fibertest.Soon(t), 2) == nil }, "")
			pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
			require.NoError(t, err)
			waiting := make(chan error, 1)
			go func() { _, err := e.A.Recv(fibertest.Soon(t)); waiting <- err }()
			require.NoError(t, syscall.Kill(pid, sig))
			require.Equal(t, io.EOF, <-waiting)
			refusesItems(t, e.A)
			refusesItems(t, e.B)
			require.NoError(t, e.A.Close())
		})
	}
}

// makeEnds makes a pipe and gives both ends away, as a result.
var makeEnds = fiber.Register("makeEnds", func(context.Context, fibertest.None) (ends, error) {
	a, b, err := fiber.Pipe[int]()
	return ends{a, b}, err
})

// An end that moves takes along what was not received, and nothing is lost or
// doubled of what is sent while it does.
func TestEndMovesWithWhatIsUnread(t *testing.T) {
	t.Parallel()
	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	defer w.Close()
	const n = 3000
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := w.Send(context.Background(), i); err != nil {
				sent <- err
				return
			}
		}
		sent <- w.Close()
	}()
	next := 0
	for range 20 { // here
		receives(t, r, next)
		next++
	}
	results := fibertest.NewQueue[int](t)
	onward := fibertest.NewQueue[*fiber.Receiver[int]](t)
	for i := range 3 { // three times elsewhere, each time to another process, and back
		p := fiber.NewProcess(receiveSome, some{r, onward, results, 100 * (i + 1)})
		fibertest.Begin(t, p)
		_, err := r.Recv(fibertest.Soon(t))
		require.ErrorIs(t, err, fiber.ErrClosed)
		for range 100 * (i + 1) {
			got, err := results.Get(fibertest.Soon(t))
			require.NoError(t, err)
			require.Equal(t, next, got)
			next++
		}
		r, err = onward.Get(fibertest.Soon(t))
		require.NoError(t, err)
		receives(t, r, next)
		next++
		require.NoError(t, p.Join(fibertest.Soon(t)))
	}
	for next < n {
		receives(t, r, next)
		next++
	}
	eof(t, r)
	require.NoError(t, <-sent)
}

type some struct {
	From    *fiber.Receiver[int]
	Onward  *fiber.SimpleQueue[*fiber.Receiver[int]]
	Results *fiber.SimpleQueue[int]
	N       int
}

// receiveSome receives so many items, puts them into a queue, and gives the
// end away through another. It waits until somebody has it.
var receiveSome = fiber.Register("receiveSome", func(ctx context.Context, s some) (fibertest.None, error) {
	for range s.N {
		v, err := s.From.Recv(ctx)
		if err == nil {
			err = s.Results.Put(ctx, v)
		}
		if err != nil {
			return fibertest.None{}, err
		}
	}
	return fibertest.None{}, s.Onward.Put(ctx, s.From)
})

// A sender's end moves while it sends: the order stays.
func TestSenderMoves(t *testing.T) {
	t.Parallel()
	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	pool := fibertest.NewPool(t, 2)
	for i := range 10 {
		require.NoError(t, w.Send(fibertest.Soon(t), -1))
		require.NoError(t, w.Send(fibertest.Soon(t), -1))
		back, err := fiber.Apply(fibertest.Soon(t), pool, sendOn, oneWay{To: w, N: 10 + i})
		require.NoError(t, err)
		refusesItems(t, w)
		w = back
		require.NoError(t, w.Send(fibertest.Soon(t), -2))
		for _, want := range []int{-1, -1} {
			receives(t, r, want)
		}
		for j := range 10 + i {
			receives(t, r, j)
		}
		receives(t, r, -2)
	}
	require.NoError(t, w.Close())
	eof(t, r)
}

// sendOn sends numbers and gives the end back as its result.
var sendOn = fiber.Register("sendOn", func(ctx context.Context, w oneWay) (*fiber.Sender[int], error) {
	for i := range w.N {
		if err := w.To.Send(ctx, i); err != nil {
			return nil, err
		}
	}
	return w.To, nil
})

func TestStartThatFailsBringsTheEndBack(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[[]byte](t)
	require.NoError(t, a.Send(fibertest.Soon(t), []byte("before")))
	p := fiber.NewProcess(echo, echoing{b, 1}, fiber.WithMeta(meta.GPU(1000)))
	require.Error(t, p.Start(fibertest.Within(t, 2*time.Second))) // a cluster may yet get them
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	cancel()
	q := fiber.NewProcess(echo, echoing{b, 1})
	require.ErrorIs(t, q.Start(ctx), context.Canceled)
	receives(t, b, []byte("before"))
	require.NoError(t, b.Send(fibertest.Soon(t), []byte("back")))
	receives(t, a, []byte("back"))

	// The same process may be started again, and takes it then.
	require.NoError(t, a.Send(fibertest.Soon(t), []byte("there")))
	fibertest.Begin(t, q)
	receives(t, a, []byte("there"))
	require.ErrorIs(t, b.Send(fibertest.Soon(t), nil), fiber.ErrClosed)
	// A second one finds it gone.
	require.ErrorIs(t, fiber.NewProcess(echo, echoing{b, 1}).Start(fibertest.Soon(t)), fiber.ErrClosed)
	third := fiber.NewProcess(echo, echoing{a, 1})
	require.NoError(t, a.Close())
	require.ErrorIs(t, third.Start(fibertest.Soon(t)), fiber.ErrClosed)
	require.NoError(t, q.Join(fibertest.Soon(t)))
}

// A process that was made and not started has not got the end.
func TestUnstartedProcessHasNotGotTheEnd(t *testing.T) {
	t.Parallel()
	a, b, err := fiber.Pipe[[]byte]()
	require.NoError(t, err)
	fiber.NewProcess(echo, echoing{b, 1})
	require.NoError(t, a.Send(fibertest.Soon(t), []byte("x")))
	receives(t, b, []byte("x"))
	ended := make(chan error, 1)
	go func() { _, err := a.Recv(fibertest.Soon(t)); ended <- err }()
	// Both are forgotten, and so the pipe ends: no name is under way.
	fibertest.Eventually(t, fibertest.Patience, func() bool { runtime.GC(); return len(ended) == 1 }, "the end is kept for a process that was not started")
	require.Equal(t, io.EOF, <-ended)
}

// A child ends before it has taken its argument up.
func TestChildThatDiesAtOnceClosesTheEnd(t *testing.T) {
	t.Parallel()
	for range 5 {
		a, b := fibertest.NewPipe[[]byte](t)
		p := fiber.NewProcess(echo, echoing{b, 0})
		fibertest.Begin(t, p)
		require.NoError(t, p.Kill())
		eof(t, a)
	}
}

// handingOn gives the end on, in the way that its process was told, and dies.
type handingOn struct {
	End *fiber.Conn[int]
	To  *fiber.SimpleQueue[*fiber.Conn[int]] // nil: to nobody, it is only encoded
}

var handOn = fiber.Register("handOn", func(ctx context.Context, h handingOn) (fibertest.None, error) {
	if h.To == nil {
		if _, err := h.End.MarshalBinary(); err != nil {
			return fibertest.None{}, err
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return fibertest.None{}, h.To.Put(ctx, h.End)
})

// An end whose owner dies when its name is encoded and not delivered is closed,
// although who made the pipe has it still.
func TestOwnerDiesHandingTheEndOn(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[int](t)
	fibertest.Begin(t, fiber.NewProcess(handOn, handingOn{End: b}))
	eof(t, a)
	refusesItems(t, a)
	runtime.KeepAlive(b)
}

// However far a process has come with giving its end to another one when it is
// killed: either the end has arrived, or the other end hears that it is gone.
func TestKilledHandingTheEndOn(t *testing.T) {
	t.Parallel()
	const times, together = 120, 4
	random := rand.New(rand.NewPCG(11, 6))
	delays := make(chan time.Duration, times)
	for range times {
		delays <- time.Duration(random.Int64N(int64(8 * time.Millisecond)))
	}
	close(delays)
	arrived, lost := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for delay := range delays {
				q := fibertest.NewQueue[*fiber.Conn[int]](t)
				a, b := fibertest.NewPipe[int](t)
				p := fiber.NewProcess(handOn, handingOn{b, q})
				if !assert.NoError(t, p.Start(fibertest.Soon(t))) {
					return
				}
				time.Sleep(delay) // the moment of its death
				p.Kill()
				<-p.Done()
				// What it sent last may arrive after its end is known.
				waiting, cancel := context.WithCancel(fibertest.Soon(t))
				taken := make(chan int, 1)
				go func() {
					c, err := q.Get(waiting)
					if err != nil {
						taken <- 0
						return
					}
					assert.NoError(t, c.Close())
					taken <- 1
				}()
				_, err := a.Recv(fibertest.Soon(t))
				assert.Equal(t, io.EOF, err)
				cancel()
				n := <-taken
				mu.Lock()
				arrived, lost = arrived+n, lost+1-n
				mu.Unlock()
				runtime.KeepAlive(b)
			}
		})
	}
	all.Wait()
	require.Equal(t, times, arrived+lost)
	t.Logf("%d ends arrived, %d were lost with their owner", arrived, lost)
}

var never = fiber.Register("never", func(ctx context.Context, c heedless) (fibertest.None, error) { return fibertest.None{}, nil })

// heedless ends its process when it is decoded, before the end is.
type heedless struct {
	Fuse fuse
	End  *fiber.Conn[int]
}

type fuse struct{}

func (fuse) MarshalBinary() ([]byte, error) { return []byte{1}, nil }

func (*fuse) UnmarshalBinary([]byte) error { os.Exit(7); return nil }

func TestChildThatNeverTakesTheEnd(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[int](t)
	p := fiber.NewProcess(never, heedless{End: b})
	fibertest.Begin(t, p)
	eof(t, a)
	refusesItems(t, a)
}

// An end that is lost to the garbage collector is closed.
func TestForgottenEnd(t *testing.T) {
	t.Parallel()
	a, b, err := fiber.Pipe[int]()
	require.NoError(t, err)
	require.NoError(t, b.Send(fibertest.Soon(t), 1))
	runtime.KeepAlive(b)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Recv(fibertest.Soon(t))
		if err == nil {
			_, err = a.Recv(fibertest.Soon(t))
		}
		ended <- err
	}()
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		runtime.GC()
		select {
		case err := <-ended:
			require.Equal(t, io.EOF, err)
			return true
		default:
			return false
		}
	}, "the other end of a forgotten one waits")
	refusesItems(t, a)
}

// An end that is on its way is not forgotten.
func TestEndInAQueueIsNotForgotten(t *testing.T) {
	t.Parallel()
	q := fibertest.NewQueue[*fiber.Conn[int]](t)
	a, b, err := fiber.Pipe[int]()
	require.NoError(t, err)
	require.NoError(t, b.Send(fibertest.Soon(t), 1))
	require.NoError(t, q.Put(fibertest.Soon(t), b))
	b = nil
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run
	}
	require.NoError(t, a.Send(fibertest.Soon(t), 2))
	b, err = q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	receives(t, b, 2)
	receives(t, a, 1)
	require.NoError(t, b.Close())
	eof(t, a)
}

// Two get the name of one end: the first has it.
func TestEndIsOnlyOneProcesss(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[int](t)
	q := fibertest.NewQueue[*fiber.Conn[int]](t)
	require.NoError(t, q.Put(fibertest.Soon(t), b))
	require.NoError(t, q.Put(fibertest.Soon(t), b))
	one, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, one.Send(fibertest.Soon(t), 1))
	two, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.ErrorIs(t, two.Send(fibertest.Soon(t), 2), fiber.ErrClosed)
	_, err = two.Recv(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.ErrorIs(t, q.Put(fibertest.Soon(t), two), fiber.ErrClosed)
	require.NoError(t, two.Close())
	refusesItems(t, b)
	receives(t, a, 1)
	require.NoError(t, a.Send(fibertest.Soon(t), 3))
	receives(t, one, 3)
}

// twice has one end of a pipe several times.
type twice struct {
	One, Two *fiber.Conn[int]
	More     []*fiber.Conn[int]
}

// alternate receives items from all copies of an end in turn, and sends each back
// through another copy.
func (e twice) alternate(ctx context.Context, n int) error {
	copies := append([]*fiber.Conn[int]{e.One, e.Two}, e.More...)
	for i := range n {
		v, err := copies[i%len(copies)].Recv(ctx)
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if err := copies[(i+1)%len(copies)].Send(ctx, v); err != nil {
			return fmt.Errorf("item %d, on its way back: %w", i, err)
		}
	}
	return nil
}

var (
	alternate = fiber.Register("alternate", func(ctx context.Context, e twice) (fibertest.None, error) {
		return fibertest.None{}, e.alternate(ctx, 12)
	})
	alternateItem = fiber.Register("alternateItem", func(ctx context.Context, q *fiber.SimpleQueue[twice]) (fibertest.None, error) {
		e, err := q.Get(ctx)
		if err != nil {
			return fibertest.None{}, err
		}
		return fibertest.None{}, e.alternate(ctx, 12)
	})
	handBack = fiber.Register("handBack", func(_ context.Context, e twice) (twice, error) { return e, nil })
)

// An end that is in a value several times is one end where it arrives.
func TestSameEndTwiceInAValue(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(t *testing.T, e twice) func() error{
		"argument of a Process": func(t *testing.T, e twice) func() error {
			p := fiber.NewProcess(alternate, e)
			fibertest.Begin(t, p)
			return func() error { return p.Join(fibertest.Soon(t)) }
		},
		"argument of a task": func(t *testing.T, e twice) func() error {
			done := fiber.ApplyAsync(fibertest.Soon(t), fibertest.NewPool(t, 1), alternate, e)
			return func() error { _, err := done.Get(fibertest.Soon(t)); return err }
		},
		"item": func(t *testing.T, e twice) func() error {
			q := fibertest.NewQueue[twice](t)
			require.NoError(t, q.Put(fibertest.Soon(t), e))
			done := fiber.ApplyAsync(fibertest.Soon(t), fibertest.NewPool(t, 1), alternateItem, q)
			return func() error { _, err := done.Get(fibertest.Soon(t)); return err }
		},
		"result": func(t *testing.T, e twice) func() error {
			back, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), handBack, e)
			require.NoError(t, err)
			return func() error { return back.alternate(fibertest.Soon(t), 12) }
		},
		"through a pipe": func(t *testing.T, e twice) func() error {
			a, b := fibertest.NewPipe[twice](t)
			require.NoError(t, a.Send(fibertest.Soon(t), e))
			got, err := b.Recv(fibertest.Soon(t))
			require.NoError(t, err)
			return func() error { return got.alternate(fibertest.Soon(t), 12) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := fibertest.NewPipe[int](t)
			for i := range 6 {
				require.NoError(t, here.Send(fibertest.Soon(t), i))
			}
			wait := pass(t, twice{there, there, []*fiber.Conn[int]{there, there}})
			for i := range 6 {
				require.NoError(t, here.Send(fibertest.Soon(t), 6+i))
			}
			require.NoError(t, wait())
			for i := range 12 {
				receives(t, here, i)
			}
			refusesItems(t, there)
		})
	}
}

type takingEnd struct {
	Queue *fiber.SimpleQueue[*fiber.Conn[int]]
	Pipe  *fiber.Conn[*fiber.Conn[int]]
}

// takeAndSay receives the end of a pipe, and sends a last item into it.
var takeAndSay = fiber.Register("takeAndSay", func(ctx context.Context, k takingEnd) (fibertest.None, error) {
	get := k.Pipe.Recv
	if k.Queue != nil {
		get = k.Queue.Get
	}
	end, err := get(ctx)
	if err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, end.Send(ctx, -1)
})

// What is sent into an end on its way arrives, until Send refuses it, and before
// what is sent where the end has gone.
func TestSendWhileTheEndLeaves(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(t *testing.T, end *fiber.Conn[int]) takingEnd{
		"in a queue": func(t *testing.T, end *fiber.Conn[int]) takingEnd {
			q := fibertest.NewQueue[*fiber.Conn[int]](t)
			require.NoError(t, q.Put(fibertest.Soon(t), end))
			return takingEnd{Queue: q}
		},
		"in a pipe": func(t *testing.T, end *fiber.Conn[int]) takingEnd {
			a, b := fibertest.NewPipe[*fiber.Conn[int]](t)
			require.NoError(t, a.Send(fibertest.Soon(t), end))
			t.Cleanup(func() { a.Close() })
			return takingEnd{Pipe: b}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, end := fibertest.NewPipe[int](t)
			k := pass(t, end)
			require.NoError(t, end.Send(fibertest.Soon(t), 0), "nobody has taken it yet")
			p := fiber.NewProcess(takeAndSay, k)
			fibertest.Begin(t, p)
			said := make(chan int, 1)
			go func() {
				n := 1
				for end.Send(context.Background(), n) == nil {
					n++
				}
				said <- n
			}()
			next := 0
			for {
				v, err := here.Recv(fibertest.Soon(t))
				require.NoError(t, err)
				if v == -1 {
					break
				}
				require.Equal(t, next, v)
				next++
			}
			require.Equal(t, <-said, next, "an item is lost")
			require.ErrorIs(t, end.Send(fibertest.Soon(t), 1), fiber.ErrClosed)
			require.NoError(t, p.Join(fibertest.Soon(t)))
		})
	}
}

// A pipe's end goes through a pipe, its own included.
func TestEndThroughAPipe(t *testing.T) {
	t.Parallel()
	type bundle struct{ End *fiber.Conn[int] }
	a, b := fibertest.NewPipe[bundle](t)
	x, y := fibertest.NewPipe[int](t)
	require.NoError(t, a.Send(fibertest.Soon(t), bundle{y}))
	got, err := b.Recv(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, got.End.Send(fibertest.Soon(t), 5))
	receives(t, x, 5)
	refusesItems(t, y)
	require.NoError(t, a.Send(fibertest.Soon(t), bundle{x}))
	require.NoError(t, b.Close(), "with an end in it")
	require.NoError(t, x.Close())
}
