//go:build unix

package objects_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// weighty counts in each process how often it was decoded, and how often a
// decoded one was let go of.
type weighty struct{ data []byte }

var weights struct{ decoded, freed atomic.Int64 }

func newWeighty(n int) weighty { return weighty{bytes.Repeat([]byte{1}, n)} }

func (w weighty) MarshalBinary() ([]byte, error) { return w.data, nil }

func (w *weighty) UnmarshalBinary(b []byte) error {
	w.data = bytes.Clone(b)
	weights.decoded.Add(1)
	runtime.AddCleanup(&w.data[0], func(fibertest.None) { weights.freed.Add(1) }, fibertest.None{})
	return nil
}

type lifting struct {
	Weight *fiber.Shared[weighty]
	N      int
}

type lifted struct{ PID, Size, Decoded int }

var (
	lift = fiber.Register("lift", func(ctx context.Context, l lifting) (lifted, error) {
		w, err := l.Weight.Get(ctx)
		return lifted{os.Getpid(), len(w.data), int(weights.decoded.Load())}, err
	})

	// letGo counts the weights that this process has let go of.
	letGo = fiber.Register("letGo", func(context.Context, fibertest.None) (int, error) {
		runtime.GC()
		return int(weights.freed.Load()), nil
	})

	total = fiber.Register("total", func(ctx context.Context, s *fiber.Shared[[]float64]) (float64, error) {
		xs, err := s.Get(ctx)
		sum := 0.0
		for _, x := range xs {
			sum += x
		}
		return sum, err
	})
)

func ascending(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i)
	}
	return xs
}

func share[T any](t testing.TB, v T) *fiber.Shared[T] {
	t.Helper()
	s, err := fiber.Share(fibertest.Soon(t), v)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestSharedValueIsFetchedOncePerWorker(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	pool := fibertest.NewPool(t, 2, fiber.WithConcurrency(4))
	fibertest.Warm(t, pool)
	s := share(t, newWeighty(size))
	ins := make([]lifting, 200)
	for i := range ins {
		ins[i] = lifting{s, i}
	}
	for range 2 {
		outs, err := fiber.Map(fibertest.Soon(t), pool, lift, ins, fiber.ChunkSize(1))
		require.NoError(t, err)
		for _, out := range outs {
			require.Equal(t, size, out.Size)
			require.Equal(t, 1, out.Decoded, "fetched more than once")
			require.NotEqual(t, os.Getpid(), out.PID)
		}
	}
	one, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	two, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Same(t, &one.data[0], &two.data[0], "later calls give another value")
}

func TestSharedValueIsASnapshot(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	xs := make([]float64, 10_000)
	for i := range xs {
		xs[i] = 1
	}
	s := share(t, xs)
	for i := range xs {
		xs[i] = 5
	}
	sum, err := fiber.Apply(fibertest.Soon(t), pool, total, s)
	require.NoError(t, err)
	require.Equal(t, 10_000.0, sum, "a change after Share was seen")
	here, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 1.0, here[0])
}

func TestClosedSharedValue(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	s := share(t, newWeighty(1<<20))
	_, err := fiber.Apply(fibertest.Soon(t), pool, lift, lifting{Weight: s})
	require.NoError(t, err)
	s.Close()
	s.Close()
	_, err = s.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	freed := func() int {
		n, err := fiber.Apply(fibertest.Soon(t), pool, letGo, fibertest.None{})
		require.NoError(t, err)
		return n
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return freed() == 1 }, "the worker keeps a closed value")
	_, err = fiber.Apply(fibertest.Soon(t), pool, lift, lifting{Weight: s})
	require.ErrorIs(t, err, fiber.ErrClosed)
	var remote *fiber.RemoteError
	require.ErrorAs(t, err, &remote)
	require.Contains(t, err.Error(), "closed")
}

// A value that nobody holds any more goes, as an iteration's theta does.
func TestUnreferencedSharedValueLeavesTheWorkers(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	const n = 5
	for range n {
		s, err := fiber.Share(fibertest.Soon(t), newWeighty(1<<20))
		require.NoError(t, err)
		_, err = fiber.Apply(fibertest.Soon(t), pool, lift, lifting{Weight: s})
		require.NoError(t, err)
		runtime.KeepAlive(s)
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		runtime.GC()
		freed, err := fiber.Apply(fibertest.Soon(t), pool, letGo, fibertest.None{})
		require.NoError(t, err)
		return freed == n
	}, "the worker keeps values that nobody holds")
}

// closing closes a value that another process has shared.
var closing = fiber.Register("closing", func(ctx context.Context, s *fiber.Shared[weighty]) (fibertest.None, error) {
	if _, err := s.Get(ctx); err != nil {
		return fibertest.None{}, err
	}
	s.Close()
	if _, err := s.Get(ctx); !errors.Is(err, fiber.ErrClosed) {
		return fibertest.None{}, fmt.Errorf("Get where the value was closed: %w", err)
	}
	s.Close()
	return fibertest.None{}, nil
})

var getWeighty = fiber.Register("getWeighty", func(ctx context.Context, s *fiber.Shared[weighty]) (int, error) {
	w, err := s.Get(ctx)
	return len(w.data), err
})

// shareWeighty shares a value, in a worker.
var shareWeighty = fiber.Register("shareWeighty", func(ctx context.Context, n int) (*fiber.Shared[weighty], error) {
	return fiber.Share(ctx, newWeighty(n))
})

// Any process can close a value: it is gone in its home at once, and soon where it was fetched.
func TestClosingASharedValueElsewhere(t *testing.T) {
	t.Parallel()
	pool, other := fibertest.NewPool(t, 1), fibertest.NewPool(t, 1)
	for name, make := range map[string]func() (*fiber.Shared[weighty], error){
		"of the main process": func() (*fiber.Shared[weighty], error) { return fiber.Share(fibertest.Soon(t), newWeighty(1000)) },
		"of a worker": func() (*fiber.Shared[weighty], error) {
			return fiber.Apply(fibertest.Soon(t), pool, shareWeighty, 1000)
		},
	} {
		s, err := make()
		require.NoError(t, err, name)
		_, err = s.Get(fibertest.Soon(t))
		require.NoError(t, err, name)
		_, err = fiber.Apply(fibertest.Soon(t), other, closing, s)
		require.NoError(t, err, name)
		fibertest.Eventually(t, fibertest.Patience, func() bool { _, err = s.Get(fibertest.Soon(t)); return err != nil }, name)
		require.ErrorIs(t, err, fiber.ErrClosed, name)
		fibertest.Eventually(t, fibertest.Patience, func() bool {
			_, err = fiber.Apply(fibertest.Soon(t), pool, getWeighty, s)
			return err != nil
		}, name)
		require.ErrorIs(t, err, fiber.ErrClosed, name)
	}
}

// box is a value that refers to others.
type box struct {
	Number *fiber.Shared[int]
	Queue  *fiber.SimpleQueue[int]
}

// shareBox shares a box, and lets go of what is in it.
var shareBox = fiber.Register("shareBox", func(ctx context.Context, size int) (*fiber.Shared[[]box], error) {
	forgetful()
	var b box
	var err error
	if b.Number, err = fiber.Share(ctx, 7); err != nil {
		return nil, err
	}
	return fiber.Share(ctx, append(make([]box, size), b))
})

// What a shared value refers to lives as long as the value, also when both have moved.
func TestSharedValuesInSharedValues(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 100_000} {
		pool := fibertest.NewPool(t, 1)
		outer, err := fiber.Apply(fibertest.Soon(t), pool, shareBox, size)
		require.NoError(t, err)
		pool.Close()
		time.Sleep(fibertest.Lapse + fibertest.Lapse/2)
		boxes, err := outer.Get(fibertest.Soon(t))
		require.NoError(t, err)
		n, err := boxes[size].Number.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, 7, n)
	}
	queue := fibertest.NewQueue[int](t)
	mine := share(t, []box{{Queue: queue, Number: share(t, 8)}})
	boxes, err := mine.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, boxes[0].Queue.Put(fibertest.Soon(t), 1))
}

func TestSharedValueOfAnotherType(t *testing.T) {
	t.Parallel()
	name, err := share(t, 42).MarshalBinary()
	require.NoError(t, err)
	var number fiber.Shared[int]
	var text fiber.Shared[string]
	require.NoError(t, number.UnmarshalBinary(name))
	require.NoError(t, text.UnmarshalBinary(name))
	_, err = text.Get(fibertest.Soon(t))
	require.ErrorContains(t, err, "shared value")
	var mismatch *fiber.MismatchError
	require.ErrorAs(t, err, &mismatch)
	n, err := number.Get(fibertest.Soon(t))
	require.NoError(t, err, "after somebody asked for another type")
	require.Equal(t, 42, n)
	_, err = text.Get(fibertest.Soon(t))
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "is a int, not a string")
	require.Error(t, text.UnmarshalBinary([]byte("nonsense")))
}

// Shared values of a process in the middle, and of the root, two below it.
var sharedBelow = fiber.Register("sharedBelow", func(ctx context.Context, above *fiber.Shared[[]float64]) ([]float64, error) {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	mine, err := fiber.Share(ctx, []float64{1, 2, 3})
	if err != nil {
		return nil, err
	}
	defer mine.Close()
	return fiber.Map(ctx, pool, total, []*fiber.Shared[[]float64]{above, mine, above, mine}, fiber.ChunkSize(1))
})

func TestSharedValuesOfNestedProcesses(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	s := share(t, []float64{10, 20})
	sums, err := fiber.Apply(fibertest.Soon(t), pool, sharedBelow, s)
	require.NoError(t, err)
	require.Equal(t, []float64{30, 6, 30, 6}, sums)
}

var keptShared atomic.Pointer[fiber.Shared[string]]

// sharer shares a value and keeps it.
var sharer = fiber.Register("sharer", func(ctx context.Context, text string) (*fiber.Shared[string], error) {
	s, err := fiber.Share(ctx, text+" of "+strconv.Itoa(os.Getpid())+strings.Repeat(".", 10_000))
	keptShared.Store(s)
	return s, err
})

func TestSharedValueOfAWorker(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	s, err := fiber.Apply(fibertest.Soon(t), pool, sharer, "word")
	require.NoError(t, err)
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	other, err := fiber.Apply(fibertest.Soon(t), pool, sharer, "other")
	require.NoError(t, err)
	word, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, "word of "+strconv.Itoa(pid), strings.TrimRight(word, "."))

	// Its home goes: what was fetched stays, all else is gone, and that is said, not waited for.
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return !fibertest.Running(pid) }, "the worker is gone")
	_, err = other.Get(fibertest.Soon(t))
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.Contains(t, lost.Worker, "Worker-1")
	again, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, word, again)
}

func TestSharedValuesOfAllSizes(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	for _, n := range []int{1, 100, 5000, 3 << 20} {
		s := share(t, make([]float64, n))
		sum, err := fiber.Apply(fibertest.Soon(t), pool, total, s)
		require.NoError(t, err)
		require.Zero(t, sum)
	}
	s := share(t, []float64(nil))
	sum, err := fiber.Apply(fibertest.Soon(t), pool, total, s)
	require.NoError(t, err)
	require.Zero(t, sum)
	n := share(t, binary.MaxVarintLen64)
	got, err := n.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, binary.MaxVarintLen64, got)
}

// liftLate takes a shared value when a file is there.
var liftLate = fiber.Register("liftLate", func(ctx context.Context, l late) (int, error) {
	if err := (fibertest.Marking{File: l.File, Line: "up"}).Append(); err != nil {
		return 0, err
	}
	if err := fibertest.Await(ctx, l.Gate); err != nil {
		return 0, err
	}
	w, err := l.Weight.Get(ctx)
	return len(w.data), err
})

type late struct {
	Weight     *fiber.Shared[weighty]
	File, Gate string
}

// A call holds its argument until it is done, and with it the value in it,
// also when nobody else does.
func TestArgumentsKeepTheirSharedValues(t *testing.T) {
	t.Parallel()
	fresh := func(file, gate string) late {
		s, err := fiber.Share(fibertest.Soon(t), newWeighty(1000))
		require.NoError(t, err)
		return late{s, file, gate}
	}
	for name, call := range map[string]func(file, gate string) error{
		"Apply": func(file, gate string) error {
			_, err := fiber.Apply(fibertest.Soon(t), fibertest.NewPool(t, 1), liftLate, fresh(file, gate))
			return err
		},
		"ApplyAsync": func(file, gate string) error {
			_, err := fiber.ApplyAsync(fibertest.Soon(t), fibertest.NewPool(t, 1), liftLate, fresh(file, gate)).Get(fibertest.Soon(t))
			return err
		},
		"Map": func(file, gate string) error {
			_, err := fiber.Map(fibertest.Soon(t), fibertest.NewPool(t, 1), liftLate, []late{fresh(file, gate)})
			return err
		},
		"IMap": func(file, gate string) (err error) {
			for _, err = range fiber.IMap(fibertest.Soon(t), fibertest.NewPool(t, 1), liftLate, func(yield func(late) bool) { yield(fresh(file, gate)) }) {
			}
			return err
		},
		"Process": func(file, gate string) error {
			p := fiber.NewProcess(liftLate, fresh(file, gate))
			if err := p.Start(fibertest.Soon(t)); err != nil {
				return err
			}
			return p.Join(fibertest.Soon(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fibertest.OpenDir(t)
			result := make(chan error, 1)
			go func() { result <- call(dir+"/up", dir+"/gate") }()
			fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, dir+"/up")) == 1 }, "it is up")
			for range 5 { // a cleanup runs after a collection
				runtime.GC()
				time.Sleep(10 * time.Millisecond)
			}
			fibertest.OpenGate(t, dir+"/gate")
			require.NoError(t, <-result)
		})
	}
}

var _ = fibertest.MainProgram("gap", func(ctx context.Context) error {
	s, err := fiber.Share(ctx, newWeighty(1<<20))
	if err != nil {
		return err
	}
	name, _ := s.MarshalBinary()
	path := string(regexp.MustCompile(`/[^@]*/socket`).Find(name))
	if err := os.Rename(path, path+".home"); err != nil {
		return err
	}
	between, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	cutting, cut := context.WithCancel(ctx)
	defer cut()
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	go func() {
		for n := 0; ; n++ {
			conn, err := between.Accept()
			if err != nil {
				return
			}
			home, err := net.Dial("unix", path+".home")
			if err != nil {
				return
			}
			go io.Copy(home, conn)
			if cutting.Err() == nil { // a later connection is left alone
				context.AfterFunc(cutting, func() { conn.Close(); home.Close() })
			}
			go func() {
				if n < 3 {
					io.CopyN(conn, home, 100<<10) // the middle of the value
					conn.Close()
					home.Close()
				}
				io.Copy(conn, home)
			}()
		}
	}()
	weight, err := fiber.Apply(ctx, pool, lift, lifting{Weight: s})
	fmt.Println("got", weight.Size, err)
	if err != nil {
		return err
	}
	cut() // the worker does not hear of the end
	s.Close()
	for err == nil {
		_, err = fiber.Apply(ctx, pool, lift, lifting{Weight: s})
	}
	fmt.Println("closed:", errors.Is(err, fiber.ErrClosed))
	return nil
})

// A connection that ends on the way of a shared value is made again. A process
// that is cut off does not go on with what it has kept of a closed one.
func TestSharedValueThroughAGap(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "gap")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "got 1048576 <nil>\nclosed: true\n", x.Out.String())
}

func TestSharedValueThatWasNeverShared(t *testing.T) {
	t.Parallel()
	var none fiber.Shared[int]
	_, err := none.Get(fibertest.Soon(t))
	require.EqualError(t, err, "fiber: use of an uninitialised Shared; create it with Share")
}
