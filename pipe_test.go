//go:build unix

package fiber_test

import (
	"bytes"
	"context"
	"errors"
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
)

func newPipe[T any](t testing.TB) (a, b *fiber.Conn[T]) {
	t.Helper()
	a, b, err := fiber.Pipe[T]()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// begin starts a process that is ended when the test ends.
func begin(t testing.TB, p *fiber.Process) {
	t.Helper()
	require.NoError(t, p.Start(soon(t)))
	t.Cleanup(func() {
		p.Kill()
		p.Join(context.Background())
	})
}

// receives checks that the next item is want.
func receives[T any](t testing.TB, c interface {
	Recv(context.Context) (T, error)
}, want T) {
	t.Helper()
	got, err := c.Recv(soon(t))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// eof checks that nothing comes any more.
func eof[T any](t testing.TB, c interface {
	Recv(context.Context) (T, error)
}) {
	t.Helper()
	for range 2 {
		_, err := c.Recv(soon(t))
		require.Equal(t, io.EOF, err)
	}
}

// refusesItems checks that Send comes to give ErrClosed; what was sent just before
// the news came is lost.
func refusesItems(t testing.TB, c interface {
	Send(context.Context, int) error
}) {
	t.Helper()
	eventually(t, patience, func() bool {
		err := c.Send(soon(t), 0)
		if err != nil {
			require.ErrorIs(t, err, fiber.ErrClosed)
		}
		return err != nil
	}, "Send works although nobody receives")
}

var (
	// echo sends back what it receives until the other end is gone, and fails
	// unless that were n items.
	echo = fiber.Register("echo", func(ctx context.Context, e echoing) (none, error) {
		n, err := e.run(ctx)
		if err == nil && n != e.N {
			err = fmt.Errorf("%d items", n)
		}
		return none{}, err
	})

	// echoBelow has a process of its own do that.
	echoBelow = fiber.Register("echoBelow", func(ctx context.Context, e echoing) (none, error) {
		p := fiber.NewProcess(echo, e)
		if err := p.Start(ctx); err != nil {
			return none{}, err
		}
		if err := e.End.Send(ctx, nil); !errors.Is(err, fiber.ErrClosed) {
			return none{}, fmt.Errorf("an end that was given away gives %w", err)
		}
		return none{}, p.Join(ctx)
	})
)

type echoing struct {
	End *fiber.Conn[[]byte]
	N   int
}

func (e echoing) run(ctx context.Context) (n int, err error) {
	for {
		b, err := e.End.Recv(ctx)
		if err == io.EOF {
			return n, nil
		}
		if err == nil {
			err = e.End.Send(ctx, b)
		}
		if err != nil {
			return n, err
		}
		n++
	}
}

func TestPipeInOneProcess(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	for i := range 1000 {
		require.NoError(t, a.Send(soon(t), i))
		require.NoError(t, b.Send(soon(t), -i))
		receives(t, b, i)
		receives(t, a, -i)
	}
	require.NoError(t, a.Send(soon(t), 1))
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	receives(t, b, 1)
	eof(t, b)
	require.ErrorIs(t, b.Send(soon(t), 1), fiber.ErrClosed)
	require.ErrorIs(t, a.Send(soon(t), 1), fiber.ErrClosed)
	_, err := a.Recv(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.NoError(t, b.Close())
	_, err = b.Recv(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

func TestPipeToOtherProcesses(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]*fiber.Func[echoing, none]{"child": echo, "grandchild": echoBelow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newPipe[[]byte](t)
			p := fiber.NewProcess(fn, echoing{b, 100})
			begin(t, p)
			require.ErrorIs(t, b.Send(soon(t), nil), fiber.ErrClosed)
			_, err := b.Recv(soon(t))
			require.ErrorIs(t, err, fiber.ErrClosed)
			require.NoError(t, b.Close())
			for i := range 100 {
				ball := bytes.Repeat([]byte{byte(i)}, 1+i*i)
				require.NoError(t, a.Send(soon(t), ball))
				receives(t, a, ball)
			}
			require.NoError(t, a.Close())
			require.NoError(t, p.Join(soon(t)))
		})
	}
}

func TestPipeBetweenChildren(t *testing.T) {
	t.Parallel()
	a, b := newPipe[[]byte](t)
	one, two := fiber.NewProcess(serve, a), fiber.NewProcess(echo, echoing{b, 500})
	begin(t, one)
	begin(t, two)
	for _, end := range []*fiber.Conn[[]byte]{a, b} {
		require.ErrorIs(t, end.Send(soon(t), nil), fiber.ErrClosed)
	}
	require.NoError(t, one.Join(soon(t)))
	require.NoError(t, two.Join(soon(t)))
}

// serve plays 500 balls with the other end and ends without closing its own.
var serve = fiber.Register("serve", func(ctx context.Context, c *fiber.Conn[[]byte]) (none, error) {
	for i := range 500 {
		if err := c.Send(ctx, fmt.Append(nil, i)); err != nil {
			return none{}, err
		}
		if b, err := c.Recv(ctx); err != nil || string(b) != fmt.Sprint(i) {
			return none{}, fmt.Errorf("%s instead of %d, %w", b, i, err)
		}
	}
	return none{}, nil
})

// ends are both ends of one pipe.
type ends struct {
	A, B *fiber.Conn[int]
}

var handBoth = fiber.Register("handBoth", func(ctx context.Context, e ends) (none, error) {
	if err := e.A.Send(ctx, 1); err != nil {
		return none{}, err
	}
	_, err := e.B.Recv(ctx)
	return none{}, err
})

func TestBothEndsToOneChild(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	p := fiber.NewProcess(handBoth, ends{a, b})
	begin(t, p)
	require.NoError(t, p.Join(soon(t)))
	require.ErrorIs(t, a.Send(soon(t), 1), fiber.ErrClosed)
	require.ErrorIs(t, b.Send(soon(t), 1), fiber.ErrClosed)
}

// oneWay is an end of a one-way pipe, or of several.
type oneWay struct {
	From *fiber.Receiver[int]
	To   *fiber.Sender[int]
	N    int
	End  string // how its process ends: "" or "kill"
}

// send sends numbers and ends.
var sendNumbers = fiber.Register("sendNumbers", func(ctx context.Context, w oneWay) (none, error) {
	for i := range w.N {
		if err := w.To.Send(ctx, i); err != nil {
			return none{}, err
		}
	}
	if w.End == "kill" {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return none{}, nil
})

// What was sent before a process's end is received, however it ended.
func TestEndOfASender(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", "kill"} {
		t.Run("end "+end, func(t *testing.T) {
			t.Parallel()
			r, w, err := fiber.PipeOneWay[int]()
			require.NoError(t, err)
			p := fiber.NewProcess(sendNumbers, oneWay{To: w, N: 200, End: end})
			begin(t, p)
			select {
			case <-p.Done():
			case <-time.After(patience):
				require.Fail(t, "200 items have room, but they wait for a receiver")
			}
			for i := range 200 {
				receives(t, r, i)
			}
			eof(t, r)
			require.NoError(t, r.Close())
		})
	}
}

// A process ends while somebody waits for it.
func TestDeathWakesTheOtherEnd(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	up := newQueue[int](t)
	p := fiber.NewProcess(keepEnd, kept{b, up})
	begin(t, p)
	_, err := up.Get(soon(t))
	require.NoError(t, err)
	received, sent := make(chan error, 1), make(chan error, 1)
	go func() { _, err := a.Recv(soon(t)); received <- err }()
	go func() {
		for {
			if err := a.Send(soon(t), 1); err != nil {
				sent <- err
				return
			}
		}
	}()
	require.NoError(t, p.Kill())
	require.Equal(t, io.EOF, <-received)
	require.ErrorIs(t, <-sent, fiber.ErrClosed)
}

type kept struct {
	End *fiber.Conn[int]
	Up  *fiber.SimpleQueue[int]
}

// keepEnd has an end and does nothing with it.
var keepEnd = fiber.Register("keepEnd", func(ctx context.Context, k kept) (none, error) {
	if err := k.Up.Put(ctx, 1); err != nil {
		return none{}, err
	}
	<-ctx.Done()
	runtime.KeepAlive(k)
	return none{}, ctx.Err()
})

// The process in which a pipe was made ends; both ends are elsewhere.
func TestEndOfThePipesHome(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, 1)
			e, err := fiber.Apply(soon(t), pool, makeEnds, none{})
			require.NoError(t, err)
			require.NoError(t, e.A.Send(soon(t), 1))
			receives(t, e.B, 1)
			require.NoError(t, e.A.Send(soon(t), 2))
			eventually(t, patience, func() bool { return e.A.Send(soon(t), 2) == nil }, "")
			pid, err := fiber.Apply(soon(t), pool, getpid, none{})
			require.NoError(t, err)
			waiting := make(chan error, 1)
			go func() { _, err := e.A.Recv(soon(t)); waiting <- err }()
			require.NoError(t, syscall.Kill(pid, sig))
			require.Equal(t, io.EOF, <-waiting)
			refusesItems(t, e.A)
			refusesItems(t, e.B)
			require.NoError(t, e.A.Close())
		})
	}
}

// makeEnds makes a pipe and gives both ends away, as a result.
var makeEnds = fiber.Register("makeEnds", func(context.Context, none) (ends, error) {
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
	results := newQueue[int](t)
	onward := newQueue[*fiber.Receiver[int]](t)
	for i := range 3 { // three times elsewhere, each time to another process, and back
		p := fiber.NewProcess(receiveSome, some{r, onward, results, 100 * (i + 1)})
		begin(t, p)
		_, err := r.Recv(soon(t))
		require.ErrorIs(t, err, fiber.ErrClosed)
		for range 100 * (i + 1) {
			got, err := results.Get(soon(t))
			require.NoError(t, err)
			require.Equal(t, next, got)
			next++
		}
		r, err = onward.Get(soon(t))
		require.NoError(t, err)
		receives(t, r, next)
		next++
		require.NoError(t, p.Join(soon(t)))
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
var receiveSome = fiber.Register("receiveSome", func(ctx context.Context, s some) (none, error) {
	for range s.N {
		v, err := s.From.Recv(ctx)
		if err == nil {
			err = s.Results.Put(ctx, v)
		}
		if err != nil {
			return none{}, err
		}
	}
	return none{}, s.Onward.Put(ctx, s.From)
})

// A sender's end moves while it sends: the order stays.
func TestSenderMoves(t *testing.T) {
	t.Parallel()
	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	pool := newPool(t, 2)
	for i := range 10 {
		require.NoError(t, w.Send(soon(t), -1))
		require.NoError(t, w.Send(soon(t), -1))
		back, err := fiber.Apply(soon(t), pool, sendOn, oneWay{To: w, N: 10 + i})
		require.NoError(t, err)
		refusesItems(t, w)
		w = back
		require.NoError(t, w.Send(soon(t), -2))
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
	a, b := newPipe[[]byte](t)
	require.NoError(t, a.Send(soon(t), []byte("before")))
	p := fiber.NewProcess(echo, echoing{b, 1}, fiber.ProcessMeta(meta.GPU(1000)))
	require.Error(t, p.Start(within(t, 2*time.Second))) // a cluster may yet get them
	ctx, cancel := context.WithCancel(soon(t))
	cancel()
	q := fiber.NewProcess(echo, echoing{b, 1})
	require.ErrorIs(t, q.Start(ctx), context.Canceled)
	receives(t, b, []byte("before"))
	require.NoError(t, b.Send(soon(t), []byte("back")))
	receives(t, a, []byte("back"))

	// The same process may be started again, and takes it then.
	require.NoError(t, a.Send(soon(t), []byte("there")))
	begin(t, q)
	receives(t, a, []byte("there"))
	require.ErrorIs(t, b.Send(soon(t), nil), fiber.ErrClosed)
	// A second one finds it gone.
	require.ErrorIs(t, fiber.NewProcess(echo, echoing{b, 1}).Start(soon(t)), fiber.ErrClosed)
	third := fiber.NewProcess(echo, echoing{a, 1})
	require.NoError(t, a.Close())
	require.ErrorIs(t, third.Start(soon(t)), fiber.ErrClosed)
	require.NoError(t, q.Join(soon(t)))
}

// A process that was made and not started has not got the end.
func TestUnstartedProcessHasNotGotTheEnd(t *testing.T) {
	t.Parallel()
	a, b, err := fiber.Pipe[[]byte]()
	require.NoError(t, err)
	fiber.NewProcess(echo, echoing{b, 1})
	require.NoError(t, a.Send(soon(t), []byte("x")))
	receives(t, b, []byte("x"))
	ended := make(chan error, 1)
	go func() { _, err := a.Recv(soon(t)); ended <- err }()
	// Both are forgotten, and so the pipe ends: no name is under way.
	eventually(t, patience, func() bool { runtime.GC(); return len(ended) == 1 }, "the end is kept for a process that was not started")
	require.Equal(t, io.EOF, <-ended)
}

// A child ends before it has taken its argument up.
func TestChildThatDiesAtOnceClosesTheEnd(t *testing.T) {
	t.Parallel()
	for range 5 {
		a, b := newPipe[[]byte](t)
		p := fiber.NewProcess(echo, echoing{b, 0})
		begin(t, p)
		require.NoError(t, p.Kill())
		eof(t, a)
	}
}

// handingOn gives the end on, in the way that its process was told, and dies.
type handingOn struct {
	End *fiber.Conn[int]
	To  *fiber.SimpleQueue[*fiber.Conn[int]] // nil: to nobody, it is only encoded
}

var handOn = fiber.Register("handOn", func(ctx context.Context, h handingOn) (none, error) {
	if h.To == nil {
		if _, err := h.End.MarshalBinary(); err != nil {
			return none{}, err
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return none{}, h.To.Put(ctx, h.End)
})

// An end whose owner dies when its name is encoded and not delivered is closed,
// although who made the pipe has it still.
func TestOwnerDiesHandingTheEndOn(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	begin(t, fiber.NewProcess(handOn, handingOn{End: b}))
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
				q := newQueue[*fiber.Conn[int]](t)
				a, b := newPipe[int](t)
				p := fiber.NewProcess(handOn, handingOn{b, q})
				if !assert.NoError(t, p.Start(soon(t))) {
					return
				}
				time.Sleep(delay) // the moment of its death
				p.Kill()
				<-p.Done()
				// What it sent last may arrive after its end is known.
				waiting, cancel := context.WithCancel(soon(t))
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
				_, err := a.Recv(soon(t))
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

var never = fiber.Register("never", func(ctx context.Context, c heedless) (none, error) { return none{}, nil })

// heedless ends its process when it is decoded, before the end is.
type heedless struct {
	Fuse fuse
	End  *fiber.Conn[int]
}

type fuse struct{}

func (fuse) MarshalBinary() ([]byte, error) { return []byte{1}, nil }
func (*fuse) UnmarshalBinary([]byte) error  { os.Exit(7); return nil }

func TestChildThatNeverTakesTheEnd(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	p := fiber.NewProcess(never, heedless{End: b})
	begin(t, p)
	eof(t, a)
	refusesItems(t, a)
}

// An end that is lost to the garbage collector is closed.
func TestForgottenEnd(t *testing.T) {
	t.Parallel()
	a, b, err := fiber.Pipe[int]()
	require.NoError(t, err)
	require.NoError(t, b.Send(soon(t), 1))
	runtime.KeepAlive(b)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Recv(soon(t))
		if err == nil {
			_, err = a.Recv(soon(t))
		}
		ended <- err
	}()
	eventually(t, patience, func() bool {
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
	q := newQueue[*fiber.Conn[int]](t)
	a, b, err := fiber.Pipe[int]()
	require.NoError(t, err)
	require.NoError(t, b.Send(soon(t), 1))
	require.NoError(t, q.Put(soon(t), b))
	b = nil
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups run
	}
	require.NoError(t, a.Send(soon(t), 2))
	b, err = q.Get(soon(t))
	require.NoError(t, err)
	receives(t, b, 2)
	receives(t, a, 1)
	require.NoError(t, b.Close())
	eof(t, a)
}

// Two get the name of one end: the first has it.
func TestEndIsOnlyOneProcesss(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	q := newQueue[*fiber.Conn[int]](t)
	require.NoError(t, q.Put(soon(t), b))
	require.NoError(t, q.Put(soon(t), b))
	one, err := q.Get(soon(t))
	require.NoError(t, err)
	require.NoError(t, one.Send(soon(t), 1))
	two, err := q.Get(soon(t))
	require.NoError(t, err)
	require.ErrorIs(t, two.Send(soon(t), 2), fiber.ErrClosed)
	_, err = two.Recv(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.ErrorIs(t, q.Put(soon(t), two), fiber.ErrClosed)
	require.NoError(t, two.Close())
	refusesItems(t, b)
	receives(t, a, 1)
	require.NoError(t, a.Send(soon(t), 3))
	receives(t, one, 3)
}

func TestBackPressure(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many": 8, "large": 100 << 10, "very large": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newPipe[[]byte](t)
			gate := newQueue[int](t)
			p := fiber.NewProcess(serveLater, gated{b, gate})
			begin(t, p)
			sent := 0
			for {
				ctx, cancel := context.WithTimeout(soon(t), 100*time.Millisecond)
				err := a.Send(ctx, make([]byte, size))
				cancel()
				if err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					break
				}
				sent++
				require.LessOrEqual(t, sent, 256, "nobody receives")
				require.LessOrEqual(t, (sent-1)*size, 1<<20, "nobody receives")
			}
			require.NoError(t, gate.Put(soon(t), 1))
			require.NoError(t, a.Send(soon(t), nil), "the receiver takes them now")
			receives(t, a, fmt.Append(nil, sent))
		})
	}
}

type gated struct {
	End  *fiber.Conn[[]byte]
	Gate *fiber.SimpleQueue[int]
}

// serveLater receives, when it may, up to an empty item, and says how many
// items those were.
var serveLater = fiber.Register("serveLater", func(ctx context.Context, l gated) (none, error) {
	if _, err := l.Gate.Get(ctx); err != nil {
		return none{}, err
	}
	for n := 0; ; n++ {
		b, err := l.End.Recv(ctx)
		if err != nil {
			return none{}, err
		}
		if len(b) == 0 {
			return none{}, l.End.Send(ctx, fmt.Append(nil, n))
		}
	}
})

func TestLargeMessages(t *testing.T) {
	t.Parallel()
	a, b := newPipe[[]byte](t)
	p := fiber.NewProcess(echo, echoing{b, 3})
	begin(t, p)
	ball := bytes.Repeat([]byte("0123456789"), 1<<20)
	for i := range 3 {
		ball[i] = 'x'
		require.NoError(t, a.Send(soon(t), ball))
		receives(t, a, ball)
	}
	require.NoError(t, a.Close())
	require.NoError(t, p.Join(soon(t)))
}

func TestManyMessages(t *testing.T) {
	t.Parallel()
	const n = 100_000
	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	p := fiber.NewProcess(sendNumbers, oneWay{To: w, N: n})
	begin(t, p)
	for i := range n {
		receives(t, r, i)
	}
	eof(t, r)
	require.NoError(t, r.Close())
}

func TestPipeOfManyGoroutines(t *testing.T) {
	t.Parallel()
	a, b := newPipe[parcel](t)
	const senders, n = 8, 500
	for g := range senders {
		go func() {
			for i := range n {
				if a.Send(soon(t), parcel{g, i}) != nil {
					return
				}
			}
		}()
	}
	got := make(chan parcel)
	for range 4 {
		go func() {
			for {
				p, err := b.Recv(soon(t))
				if err != nil {
					return
				}
				got <- p
			}
		}()
	}
	seen := map[parcel]bool{}
	for range senders * n {
		seen[<-got] = true
	}
	require.Len(t, seen, senders*n)
}

func TestContextEndsARecv(t *testing.T) {
	t.Parallel()
	a, b := newPipe[int](t)
	ctx, cancel := context.WithTimeout(soon(t), 20*time.Millisecond)
	defer cancel()
	_, err := a.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, a.Send(ctx, 1), context.DeadlineExceeded)
	require.NoError(t, b.Send(soon(t), 2))
	_, err = a.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	receives(t, a, 2)
}

func TestPipeMistakes(t *testing.T) {
	t.Parallel()
	var encode *fiber.EncodeError
	_, _, err := fiber.Pipe[chan int]()
	require.ErrorAs(t, err, &encode)
	_, _, err = fiber.PipeOneWay[func()]()
	require.ErrorAs(t, err, &encode)
	require.ErrorContains(t, new(fiber.Conn[int]).Send(soon(t), 1), "uninitialised")
	_, err = (*fiber.Receiver[int])(nil).Recv(soon(t))
	require.ErrorContains(t, err, "uninitialised")
	require.Error(t, (*fiber.Sender[int])(nil).Close())
	_, err = fiber.Apply(soon(t), newPool(t, 1), handBoth, ends{new(fiber.Conn[int]), nil})
	require.ErrorAs(t, err, &encode)

	a, _ := newPipe[int](t)
	name, err := a.MarshalBinary()
	require.NoError(t, err)
	var mismatch *fiber.MismatchError
	require.ErrorAs(t, new(fiber.Conn[string]).UnmarshalBinary(name), &mismatch)
	require.ErrorAs(t, new(fiber.Sender[int]).UnmarshalBinary(name), &mismatch)
	require.Error(t, new(fiber.Conn[int]).UnmarshalBinary(name[:9]))
	require.NoError(t, a.Send(soon(t), 1), "it did not move")
	aa, bb := newPipe[any](t)
	require.ErrorAs(t, aa.Send(soon(t), func() {}), &encode)
	require.NoError(t, aa.Send(soon(t), "fine"))
	receives[any](t, bb, "fine")
}

// A pipe's end goes through a pipe, its own included.
func TestEndThroughAPipe(t *testing.T) {
	t.Parallel()
	type bundle struct{ End *fiber.Conn[int] }
	a, b := newPipe[bundle](t)
	x, y := newPipe[int](t)
	require.NoError(t, a.Send(soon(t), bundle{y}))
	got, err := b.Recv(soon(t))
	require.NoError(t, err)
	require.NoError(t, got.End.Send(soon(t), 5))
	receives(t, x, 5)
	refusesItems(t, y)
	require.NoError(t, a.Send(soon(t), bundle{x}))
	require.NoError(t, b.Close(), "with an end in it")
	require.NoError(t, x.Close())
}

// Chaos: echoing processes are killed at random; each end of a pipe sees what
// was sent, in order, and then the end of it.
func TestChaosOfPipes(t *testing.T) {
	t.Parallel()
	for i := range 30 {
		a, b := newPipe[[]byte](t)
		p := fiber.NewProcess(echo, echoing{b, -1})
		begin(t, p)
		time.AfterFunc(time.Duration(i)*time.Millisecond, func() { p.Kill() })
		go func() {
			for n := 0; a.Send(context.Background(), fmt.Append(nil, n)) == nil; n++ {
			}
		}()
		for n := 0; ; n++ {
			got, err := a.Recv(soon(t))
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
			require.Equal(t, fmt.Sprint(n), string(got))
		}
	}
}
