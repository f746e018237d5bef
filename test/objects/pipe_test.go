//go:build unix

package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// receives checks that the next item is want.
func receives[T any](t testing.TB, c interface {
	Recv(context.Context) (T, error)
}, want T) {
	t.Helper()
	got, err := c.Recv(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// eof checks that nothing comes any more.
func eof[T any](t testing.TB, c interface {
	Recv(context.Context) (T, error)
}) {
	t.Helper()
	for range 2 {
		_, err := c.Recv(fibertest.Soon(t))
		require.Equal(t, io.EOF, err)
	}
}

// refusesItems checks that Send comes to give ErrClosed; what was sent just before
// the news came is lost.
func refusesItems(t testing.TB, c interface {
	Send(context.Context, int) error
}) {
	t.Helper()
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		err := c.Send(fibertest.Soon(t), 0)
		if err != nil {
			require.ErrorIs(t, err, fiber.ErrClosed)
		}
		return err != nil
	}, "Send works although nobody receives")
}

var (
	// echo sends back what it receives until the other end is gone, and fails
	// unless that were n items.
	echo = fiber.Register("echo", func(ctx context.Context, e echoing) (fibertest.None, error) {
		n, err := e.run(ctx)
		if err == nil && n != e.N {
			err = fmt.Errorf("%d items", n)
		}
		return fibertest.None{}, err
	})

	// echoBelow has a process of its own do that.
	echoBelow = fiber.Register("echoBelow", func(ctx context.Context, e echoing) (fibertest.None, error) {
		p := fiber.NewProcess(echo, e)
		if err := p.Start(ctx); err != nil {
			return fibertest.None{}, err
		}
		if err := e.End.Send(ctx, nil); !errors.Is(err, fiber.ErrClosed) {
			return fibertest.None{}, fmt.Errorf("an end that was given away gives %w", err)
		}
		return fibertest.None{}, p.Join(ctx)
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
	a, b := fibertest.NewPipe[int](t)
	for i := range 1000 {
		require.NoError(t, a.Send(fibertest.Soon(t), i))
		require.NoError(t, b.Send(fibertest.Soon(t), -i))
		receives(t, b, i)
		receives(t, a, -i)
	}
	require.NoError(t, a.Send(fibertest.Soon(t), 1))
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	receives(t, b, 1)
	eof(t, b)
	require.ErrorIs(t, b.Send(fibertest.Soon(t), 1), fiber.ErrClosed)
	require.ErrorIs(t, a.Send(fibertest.Soon(t), 1), fiber.ErrClosed)
	_, err := a.Recv(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	require.NoError(t, b.Close())
	_, err = b.Recv(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

func TestPipeToOtherProcesses(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]*fiber.Func[echoing, fibertest.None]{"child": echo, "grandchild": echoBelow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := fibertest.NewPipe[[]byte](t)
			p := fiber.NewProcess(fn, echoing{b, 100})
			fibertest.Begin(t, p)
			require.ErrorIs(t, b.Send(fibertest.Soon(t), nil), fiber.ErrClosed)
			_, err := b.Recv(fibertest.Soon(t))
			require.ErrorIs(t, err, fiber.ErrClosed)
			require.NoError(t, b.Close())
			for i := range 100 {
				ball := bytes.Repeat([]byte{byte(i)}, 1+i*i)
				require.NoError(t, a.Send(fibertest.Soon(t), ball))
				receives(t, a, ball)
			}
			require.NoError(t, a.Close())
			require.NoError(t, p.Join(fibertest.Soon(t)))
		})
	}
}

func TestPipeBetweenChildren(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[[]byte](t)
	one, two := fiber.NewProcess(serve, a), fiber.NewProcess(echo, echoing{b, 500})
	fibertest.Begin(t, one)
	fibertest.Begin(t, two)
	for _, end := range []*fiber.Conn[[]byte]{a, b} {
		require.ErrorIs(t, end.Send(fibertest.Soon(t), nil), fiber.ErrClosed)
	}
	require.NoError(t, one.Join(fibertest.Soon(t)))
	require.NoError(t, two.Join(fibertest.Soon(t)))
}

// serve plays 500 balls with the other end and ends without closing its own.
var serve = fiber.Register("serve", func(ctx context.Context, c *fiber.Conn[[]byte]) (fibertest.None, error) {
	for i := range 500 {
		if err := c.Send(ctx, fmt.Append(nil, i)); err != nil {
			return fibertest.None{}, err
		}
		if b, err := c.Recv(ctx); err != nil || string(b) != fmt.Sprint(i) {
			return fibertest.None{}, fmt.Errorf("%s instead of %d, %w", b, i, err)
		}
	}
	return fibertest.None{}, nil
})

// oneWay is an end of a one-way pipe, or of several.
type oneWay struct {
	From *fiber.Receiver[int]
	To   *fiber.Sender[int]
	N    int
	End  string // how its process ends: "" or "kill"
}

// send sends numbers and ends.
var sendNumbers = fiber.Register("sendNumbers", func(ctx context.Context, w oneWay) (fibertest.None, error) {
	for i := range w.N {
		if err := w.To.Send(ctx, i); err != nil {
			return fibertest.None{}, err
		}
	}
	if w.End == "kill" {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return fibertest.None{}, nil
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
			fibertest.Begin(t, p)
			select {
			case <-p.Done():
			case <-time.After(fibertest.Patience):
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
	a, b := fibertest.NewPipe[int](t)
	up := fibertest.NewQueue[int](t)
	p := fiber.NewProcess(keepEnd, kept{b, up})
	fibertest.Begin(t, p)
	_, err := up.Get(fibertest.Soon(t))
	require.NoError(t, err)
	received, sent := make(chan error, 1), make(chan error, 1)
	go func() { _, err := a.Recv(fibertest.Soon(t)); received <- err }()
	go func() {
		for {
			if err := a.Send(fibertest.Soon(t), 1); err != nil {
				sent <- err
				return
			}
		}
	}()
	require.NoError(t, p.Kill())
	require.Equal(t, io.EOF, <-received)
	require.ErrorIs(t, <-sent, fiber.ErrClosed)
}

func TestBackPressure(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many": 8, "large": 100 << 10, "very large": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := fibertest.NewPipe[[]byte](t)
			gate := fibertest.NewQueue[int](t)
			p := fiber.NewProcess(serveLater, gated{b, gate})
			fibertest.Begin(t, p)
			sent := 0
			for {
				ctx, cancel := context.WithTimeout(fibertest.Soon(t), 100*time.Millisecond)
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
			require.NoError(t, gate.Put(fibertest.Soon(t), 1))
			require.NoError(t, a.Send(fibertest.Soon(t), nil), "the receiver takes them now")
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
var serveLater = fiber.Register("serveLater", func(ctx context.Context, l gated) (fibertest.None, error) {
	if _, err := l.Gate.Get(ctx); err != nil {
		return fibertest.None{}, err
	}
	for n := 0; ; n++ {
		b, err := l.End.Recv(ctx)
		if err != nil {
			return fibertest.None{}, err
		}
		if len(b) == 0 {
			return fibertest.None{}, l.End.Send(ctx, fmt.Append(nil, n))
		}
	}
})

func TestLargeMessages(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[[]byte](t)
	p := fiber.NewProcess(echo, echoing{b, 3})
	fibertest.Begin(t, p)
	ball := bytes.Repeat([]byte("0123456789"), 1<<20)
	for i := range 3 {
		ball[i] = 'x'
		require.NoError(t, a.Send(fibertest.Soon(t), ball))
		receives(t, a, ball)
	}
	require.NoError(t, a.Close())
	require.NoError(t, p.Join(fibertest.Soon(t)))
}

func TestManyMessages(t *testing.T) {
	t.Parallel()
	const n = 100_000
	r, w, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	p := fiber.NewProcess(sendNumbers, oneWay{To: w, N: n})
	fibertest.Begin(t, p)
	for i := range n {
		receives(t, r, i)
	}
	eof(t, r)
	require.NoError(t, r.Close())
}

func TestPipeOfManyGoroutines(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[parcel](t)
	const senders, n = 8, 500
	for g := range senders {
		go func() {
			for i := range n {
				if a.Send(fibertest.Soon(t), parcel{g, i}) != nil {
					return
				}
			}
		}()
	}
	got := make(chan parcel)
	for range 4 {
		go func() {
			for {
				p, err := b.Recv(fibertest.Soon(t))
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
	a, b := fibertest.NewPipe[int](t)
	ctx, cancel := context.WithTimeout(fibertest.Soon(t), 20*time.Millisecond)
	defer cancel()
	_, err := a.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, a.Send(ctx, 1), context.DeadlineExceeded)
	require.NoError(t, b.Send(fibertest.Soon(t), 2))
	_, err = a.Recv(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	receives(t, a, 2)
}

//fiber:ignore travels that is what is tested
func TestPipeMistakes(t *testing.T) {
	t.Parallel()
	var encode *fiber.EncodeError
	_, _, err := fiber.Pipe[chan int]()
	require.ErrorAs(t, err, &encode)
	_, _, err = fiber.PipeOneWay[func()]()
	require.ErrorAs(t, err, &encode)
	require.ErrorContains(t, new(fiber.Conn[int]).Send(fibertest.Soon(t), 1), "uninitialised")
	_, err = (*fiber.Receiver[int])(nil).Recv(fibertest.Soon(t))
	require.ErrorContains(t, err, "uninitialised")
	require.Error(t, (*fiber.Sender[int])(nil).Close())
	_, err = fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), handBoth, ends{new(fiber.Conn[int]), nil})
	require.ErrorAs(t, err, &encode)

	a, _ := fibertest.NewPipe[int](t)
	name, err := a.MarshalBinary()
	require.NoError(t, err)
	var mismatch *fiber.MismatchError
	require.ErrorAs(t, new(fiber.Conn[string]).UnmarshalBinary(name), &mismatch)
	require.ErrorAs(t, new(fiber.Sender[int]).UnmarshalBinary(name), &mismatch)
	require.Error(t, new(fiber.Conn[int]).UnmarshalBinary(name[:9]))
	require.NoError(t, a.Send(fibertest.Soon(t), 1), "it did not move")
	aa, bb := fibertest.NewPipe[any](t)
	require.ErrorAs(t, aa.Send(fibertest.Soon(t), func() {}), &encode)
	require.NoError(t, aa.Send(fibertest.Soon(t), "fine"))
	receives[any](t, bb, "fine")
}

// Chaos: echoing processes are killed at random; each end of a pipe sees what
// was sent, in order, and then the end of it.
func TestChaosOfPipes(t *testing.T) {
	t.Parallel()
	for i := range 30 {
		a, b := fibertest.NewPipe[[]byte](t)
		p := fiber.NewProcess(echo, echoing{b, -1})
		fibertest.Begin(t, p)
		time.AfterFunc(time.Duration(i)*time.Millisecond, func() { p.Kill() })
		go func() {
			for n := 0; a.Send(context.Background(), fmt.Append(nil, n)) == nil; n++ {
			}
		}()
		for n := 0; ; n++ {
			got, err := a.Recv(fibertest.Soon(t))
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
			require.Equal(t, fmt.Sprint(n), string(got))
		}
	}
}
