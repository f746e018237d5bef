//go:build unix

package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// forgetful makes this process let go at once of what it does not need.
func forgetful() {
	go func() {
		for {
			runtime.GC()
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

type giving struct {
	N     int
	Queue *fiber.SimpleQueue[[]*fiber.Shared[int]]
	Dict  *fiber.Dict[string, *fiber.Shared[int]]
	Pipe  *fiber.Sender[*fiber.Shared[int]]
}

// give shares values, gives them away, and lets go of them at once.
var give = fiber.Register("give", func(ctx context.Context, g giving) (shared []*fiber.Shared[int], err error) {
	forgetful()
	for n := range g.N {
		s, err := fiber.Share(ctx, n)
		if err != nil {
			return nil, err
		}
		shared = append(shared, s)
		switch {
		case g.Dict != nil:
			err = g.Dict.Set(ctx, "key", s)
		case g.Pipe != nil:
			err = g.Pipe.Send(ctx, s)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case g.Queue != nil:
		return nil, g.Queue.Put(ctx, shared)
	case g.Dict != nil, g.Pipe != nil:
		return nil, nil
	}
	return shared, nil
})

// A shared value arrives whole however it travels, and stays as long as somebody
// has it, also when whoever shared it has let go of it.
func TestSharedValueStaysWhileSomebodyHasIt(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	gives := func(t *testing.T, g giving) []*fiber.Shared[int] {
		t.Helper()
		shared, err := fiber.Apply(fibertest.Soon(t), pool, give, g)
		require.NoError(t, err)
		return shared
	}
	stays := func(t *testing.T, shared ...*fiber.Shared[int]) {
		t.Helper()
		for _, s := range shared {
			_, err := s.Get(fibertest.Soon(t))
			require.NoError(t, err)
		}
		sum := 0
		time.Sleep(fibertest.Lapse + fibertest.Lapse/2) // longer than it would live
		for _, s := range shared {
			n, err := fiber.Apply(fibertest.Soon(t), pool, getShared, s)
			require.NoError(t, err)
			sum += n
		}
		require.Equal(t, len(shared)*(len(shared)-1)/2, sum)
	}
	t.Run("result", func(t *testing.T) {
		t.Parallel()
		stays(t, gives(t, giving{N: 20})...)
	})
	t.Run("item", func(t *testing.T) {
		t.Parallel()
		q := fibertest.NewQueue[[]*fiber.Shared[int]](t)
		gives(t, giving{N: 20, Queue: q})
		shared, err := q.Get(fibertest.Soon(t))
		require.NoError(t, err)
		stays(t, shared...)
	})
	t.Run("dict", func(t *testing.T) {
		t.Parallel()
		d, err := fiber.NewDict[string, *fiber.Shared[int]](fibertest.Soon(t), fibertest.NewManager(t))
		require.NoError(t, err)
		gives(t, giving{N: 1, Dict: d})
		s, _, err := d.Get(fibertest.Soon(t), "key")
		require.NoError(t, err)
		stays(t, s)
	})
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		r, w, err := fiber.PipeOneWay[*fiber.Shared[int]]()
		require.NoError(t, err)
		gives(t, giving{N: 20, Pipe: w})
		var shared []*fiber.Shared[int]
		for range 20 {
			s, err := r.Recv(fibertest.Soon(t))
			require.NoError(t, err)
			shared = append(shared, s)
		}
		stays(t, shared...)
	})
}

var getShared = fiber.Register("getShared", func(ctx context.Context, s *fiber.Shared[int]) (int, error) { return s.Get(ctx) })

type dying struct {
	To   *fiber.SimpleQueue[*fiber.Shared[[]byte]]
	Ask  *fiber.SimpleQueue[int]
	Size int
	Safe bool
}

// shareAndEnd shares a value, gives it away, and ends when it is told to.
var shareAndEnd = fiber.Register("shareAndEnd", func(ctx context.Context, d dying) (fibertest.None, error) {
	var opts []fiber.ShareOption
	if d.Safe {
		opts = append(opts, fiber.WithCopies(2))
	}
	s, err := fiber.Share(ctx, bytes.Repeat([]byte{7}, d.Size), opts...)
	if err == nil {
		err = d.To.Put(ctx, s)
	}
	if err == nil {
		_, err = d.Ask.Get(ctx)
	}
	return fibertest.None{}, err
})

// A value outlives the process that has shared it if that ends in order, or has put a copy elsewhere, or if it is small. Else it is lost, and Get
// names the process. What is large is shared memory where there is such.
func TestSharedValueOfAProcessThatEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"returns", "is told to end", "is killed"} {
		for _, size := range []int{1, 10_000, 1 << 20} {
			for _, safe := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes, safe %t", end, size, safe), func(t *testing.T) {
					t.Parallel()
					d := dying{fibertest.NewQueue[*fiber.Shared[[]byte]](t), fibertest.NewQueue[int](t), size, safe}
					p := fiber.NewProcess(shareAndEnd, d)
					fibertest.Begin(t, p)
					s, err := d.To.Get(fibertest.Soon(t))
					require.NoError(t, err)
					name, err := s.MarshalBinary()
					require.NoError(t, err)
					switch end {
					case "returns":
						require.NoError(t, d.Ask.Put(fibertest.Soon(t), 1))
						require.NoError(t, p.Join(fibertest.Soon(t)))
					case "is told to end":
						require.NoError(t, p.Terminate())
						require.Error(t, p.Join(fibertest.Soon(t)))
					case "is killed":
						require.NoError(t, p.Kill())
						require.Error(t, p.Join(fibertest.Soon(t)))
					}
					v, err := s.Get(fibertest.Soon(t))
					if end == "is killed" && !safe && size > 4<<10 {
						var lost *fiber.WorkerLostError
						require.ErrorAs(t, err, &lost)
						require.Equal(t, p.Name(), lost.Worker)
						require.NotErrorIs(t, err, fiber.ErrClosed)
						return
					}
					require.NoError(t, err)
					require.Equal(t, bytes.Repeat([]byte{7}, size), v)
					elsewhere, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), sizeOf, s)
					require.NoError(t, err)
					require.Equal(t, size, elsewhere)
					s.Close()
					var again fiber.Shared[[]byte]
					require.NoError(t, again.UnmarshalBinary(name))
					_, err = again.Get(fibertest.Soon(t))
					require.ErrorIs(t, err, fiber.ErrClosed)
				})
			}
		}
	}
}

var sizeOf = fiber.Register("sizeOf", func(ctx context.Context, s *fiber.Shared[[]byte]) (int, error) {
	v, err := s.Get(ctx)
	return len(v), err
})

func TestCopiesOfASharedValue(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 3} {
		_, err := fiber.Share(fibertest.Soon(t), 1, fiber.WithCopies(n))
		require.EqualError(t, err, fmt.Sprintf("fiber: WithCopies(%d): a shared value has one copy, or two", n))
	}
	_, err := fiber.Share(fibertest.Soon(t), 1, nil)
	require.EqualError(t, err, "fiber: Share: option 1 of 1 is nil; leave it out")
	s, err := fiber.Share(fibertest.Soon(t), 1, fiber.WithCopies(1), fiber.WithCopies(2))
	require.NoError(t, err)
	s.Close()
}

type seeing struct {
	Value *fiber.Shared[weighty]
	Seen  *fiber.SimpleQueue[int]
}

// seeClosed fetches a value, says so, and asks again until the value is gone.
var seeClosed = fiber.Register("seeClosed", func(ctx context.Context, s seeing) (fibertest.None, error) {
	if _, err := s.Value.Get(ctx); err != nil {
		return fibertest.None{}, err
	}
	if err := s.Seen.Put(ctx, 1); err != nil {
		return fibertest.None{}, err
	}
	for {
		_, err := s.Value.Get(ctx)
		if errors.Is(err, fiber.ErrClosed) {
			return fibertest.None{}, nil
		}
		if err != nil {
			return fibertest.None{}, err
		}
		runtime.Gosched()
	}
})

// A value that was closed is not served for long from what a process has kept.
func TestCloseReachesRunningTasks(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3)
	s := share(t, newWeighty(1<<20))
	seen := fibertest.NewQueue[int](t)
	done := fiber.MapAsync(fibertest.Soon(t), pool, seeClosed, fibertest.SlicesOf(seeing{s, seen}, 3), fiber.ChunkSize(1))
	for range 3 {
		_, err := seen.Get(fibertest.Soon(t))
		require.NoError(t, err)
	}
	s.Close()
	_, err := s.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = done.Get(fibertest.Soon(t))
	require.NoError(t, err)
}
