//go:build linux

package objects_test

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// sealed is an end that travels with something that is decoded behind it.
type sealed struct {
	End  *fiber.Conn[int]
	Seal seal
}

type seal struct{}

// broken is called when a seal is decoded in this process.
var broken atomic.Pointer[context.CancelFunc]

func (seal) MarshalBinary() ([]byte, error) { return []byte{1}, nil }

func (*seal) UnmarshalBinary([]byte) error {
	if f := broken.Load(); f != nil {
		(*f)()
	}
	return nil
}

// untilDecoded is a context that ends as soon as a sealed end is decoded, and so
// before its claim has reached a home that does not move.
func untilDecoded(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	broken.Store(&cancel)
	return ctx
}

type keeping struct {
	To    *fiber.SimpleQueue[*fiber.Conn[int]]
	Heard *fiber.SimpleQueue[bool]
}

// keepOther makes a pipe, gives one end away, and says whether EOF came at the
// other one.
var keepOther = fiber.Register("keepOther", func(ctx context.Context, k keeping) (fibertest.None, error) {
	a, b, err := fiber.Pipe[int]()
	if err != nil {
		return fibertest.None{}, err
	}
	if err := k.To.Put(ctx, b); err != nil {
		return fibertest.None{}, err
	}
	for err == nil {
		_, err = a.Recv(ctx)
	}
	return fibertest.None{}, k.Heard.Put(ctx, err == io.EOF)
})

// atStoppedHome is an end that this process owns. The pipe's home, which has the
// other end, does not move until it is told to; ended checks that EOF came there.
func atStoppedHome(t *testing.T) (end *fiber.Conn[int], move, ended func()) {
	t.Helper()
	k := keeping{fibertest.NewQueue[*fiber.Conn[int]](t), fibertest.NewQueue[bool](t)}
	p := fiber.NewProcess(keepOther, k)
	fibertest.Begin(t, p)
	end, err := k.To.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, end.Send(fibertest.Soon(t), 0)) // when it has come here
	signal := func(s syscall.Signal) { require.NoError(t, syscall.Kill(p.PID(), s)) }
	signal(syscall.SIGSTOP)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Stat(p.PID())[0] == "T" }, "it does not stop")
	return end, func() { signal(syscall.SIGCONT) }, func() {
		t.Helper()
		ok, err := k.Heard.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.True(t, ok, "something else than EOF came")
	}
}

var getAndDie = fiber.Register("getAndDie", func(ctx context.Context, q *fiber.SimpleQueue[sealed]) (fibertest.None, error) {
	if _, err := q.Get(untilDecoded(ctx)); err != nil {
		return fibertest.None{}, err
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
})

// An end in a queue goes back to it with its item, when the process that has got
// it dies before the end's home has heard of it.
func TestConsumerDiesBeforeItsClaim(t *testing.T) {
	t.Parallel()
	end, move, ended := atStoppedHome(t)
	q := fibertest.NewQueue[sealed](t)
	require.NoError(t, q.Put(fibertest.Soon(t), sealed{End: end}))
	p := fiber.NewProcess(getAndDie, q)
	fibertest.Begin(t, p)
	<-p.Done()
	code, _ := p.ExitCode()
	require.Equal(t, 128+int(syscall.SIGKILL), code)
	fibertest.Eventually(t, fibertest.Patience, func() bool { n, err := q.Len(fibertest.Soon(t)); return err == nil && n == 1 }, "the item is lost")
	move()
	item, err := q.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, item.End.Close())
	ended()
}

type passingOn struct {
	From *fiber.Conn[sealed]
	To   *fiber.SimpleQueue[*fiber.Conn[sealed]]
}

var recvAndDie = fiber.Register("recvAndDie", func(ctx context.Context, r passingOn) (fibertest.None, error) {
	if _, err := r.From.Recv(untilDecoded(ctx)); err != nil {
		return fibertest.None{}, err
	}
	if err := r.To.Put(ctx, r.From); err != nil {
		return fibertest.None{}, err
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
})

// An end in an item of a pipe is read again by the pipe's next owner, when the one
// that has read it dies before the end's home has heard of it.
func TestReaderDiesBeforeItsClaim(t *testing.T) {
	t.Parallel()
	end, move, ended := atStoppedHome(t)
	a, b := fibertest.NewPipe[sealed](t)
	require.NoError(t, a.Send(fibertest.Soon(t), sealed{End: end}))
	r := passingOn{b, fibertest.NewQueue[*fiber.Conn[sealed]](t)}
	p := fiber.NewProcess(recvAndDie, r)
	fibertest.Begin(t, p)
	<-p.Done()
	code, _ := p.ExitCode()
	require.Equal(t, 128+int(syscall.SIGKILL), code)
	move()
	b, err := r.To.Get(fibertest.Soon(t))
	require.NoError(t, err)
	item, err := b.Recv(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, item.End.Close())
	ended()
}

var ignoreEnd = fiber.Register("ignoreEnd", func(ctx context.Context, end *fiber.Conn[int]) (fibertest.None, error) { return fibertest.None{}, nil })

// A task whose argument has an end begins when the end's home knows who has it: a
// worker that dies before leaves the task, and the end, to another one.
func TestTaskBeginsWithItsEnd(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	_, err := fiber.Apply(fibertest.Soon(t), pool, ignoreEnd, nil)
	require.NoError(t, err)
	end, move, ended := atStoppedHome(t)
	ctx, cancel := context.WithTimeout(fibertest.Soon(t), time.Second)
	defer cancel()
	_, err = fiber.Apply(ctx, pool, ignoreEnd, end)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	move()
	require.NoError(t, end.Close()) // unless the worker has got it; then the task's end closes it
	pool.Terminate()
	ended()
}

type takingOne struct {
	Q     *fiber.SimpleQueue[*fiber.Conn[int]]
	Delay time.Duration // before it dies
}

var getAndWait = fiber.Register("getAndWait", func(ctx context.Context, k takingOne) (fibertest.None, error) {
	time.AfterFunc(k.Delay, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	end, err := k.Q.Get(ctx)
	if err != nil {
		return fibertest.None{}, err
	}
	_, err = end.Recv(ctx)
	return fibertest.None{}, err
})

// However far a process has come with taking an end out of a queue when it is
// killed: either the end is in the queue, or the other end hears that it is gone.
// Who has put it there lives, and keeps it.
func TestKilledTakingAnEnd(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 7))
	back := 0
	const times = 40
	for range times {
		q := fibertest.NewQueue[*fiber.Conn[int]](t)
		a, b := fibertest.NewPipe[int](t)
		require.NoError(t, q.Put(fibertest.Soon(t), b))
		p := fiber.NewProcess(getAndWait, takingOne{q, time.Duration(random.Int64N(int64(4 * time.Millisecond)))})
		fibertest.Begin(t, p)
		<-p.Done()
		ended := make(chan error, 1)
		go func() { _, err := a.Recv(fibertest.Soon(t)); ended <- err }()
		fibertest.Eventually(t, fibertest.Patience, func() bool {
			n, err := q.Len(fibertest.Soon(t))
			require.NoError(t, err)
			return n == 1 || len(ended) == 1
		}, "the end is neither in the queue nor closed")
		if n, _ := q.Len(fibertest.Soon(t)); n == 1 {
			back++
			end, err := q.Get(fibertest.Soon(t))
			require.NoError(t, err)
			require.NoError(t, end.Close())
		}
		require.Equal(t, io.EOF, <-ended)
		require.NoError(t, b.Close())
	}
	t.Logf("%d of %d ends went back to the queue", back, times)
}
