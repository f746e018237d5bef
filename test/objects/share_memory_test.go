//go:build linux

package objects_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// add adds numbers up. The race detector would use more memory for them than they have.
//
//go:norace
func add(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

var quietTotal = fiber.Register("quietTotal", func(ctx context.Context, s *fiber.Shared[[]float64]) (float64, error) {
	xs, err := s.Get(ctx)
	return add(xs), err
})

// What processes share is no memory of theirs: they may have less.
func TestSharedMemoryIsNobodys(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithMeta(meta.Memory(100)))
	xs := make([]float64, 32<<20)
	xs[len(xs)-1] = 1
	s := share(t, xs)
	sums, err := fiber.Map(fibertest.Soon(t), pool, quietTotal, slices.Repeat([]*fiber.Shared[[]float64]{s}, 4), fiber.ChunkSize(1))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1, 1, 1}, sums)
}

// shareAndGet gets what it has shared itself.
var shareAndGet = fiber.Register("shareAndGet", func(ctx context.Context, n int) (float64, error) {
	s, err := fiber.Share(ctx, ascending(n))
	if err != nil {
		return 0, err
	}
	defer s.Close()
	xs, err := s.Get(ctx)
	return add(xs), err
})

// A process gets its own values, whoever else sees its memory.
func TestOwnSharedValue(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	for _, n := range []int{100, 100_000} {
		got, err := fiber.Apply(fibertest.Soon(t), pool, shareAndGet, n)
		require.NoError(t, err)
		require.Equal(t, float64(n)*float64(n-1)/2, got)
	}
}

// scribble overwrites what it has got.
var scribble = fiber.Register("scribble", func(ctx context.Context, s *fiber.Shared[[]float64]) (float64, error) {
	xs, err := s.Get(ctx)
	for i := range xs {
		xs[i] = -1
	}
	return xs[0], err
})

// What a process writes over a value, though it must not, no other process sees.
func TestWritesToASharedValue(t *testing.T) {
	t.Parallel()
	writers, readers := fibertest.NewPool(t, 1), fibertest.NewPool(t, 1)
	xs := ascending(100_000)
	sum := float64(len(xs)) * float64(len(xs)-1) / 2
	s := share(t, xs)
	for range 2 {
		got, err := fiber.Apply(fibertest.Soon(t), writers, scribble, s)
		require.NoError(t, err)
		require.Equal(t, -1.0, got)
		got, err = fiber.Apply(fibertest.Soon(t), readers, total, s)
		require.NoError(t, err)
		require.Equal(t, sum, got)
	}
	here, err := s.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, xs, here)
	here[0] = -1
	late := fibertest.NewPool(t, 1)
	got, err := fiber.Apply(fibertest.Soon(t), late, total, s)
	require.NoError(t, err)
	require.Equal(t, sum, got)
}

// parts are parts of values that this process has had.
var parts [][]float64

// keepPart keeps ten numbers of a value, and lets everything else go.
var keepPart = fiber.Register("keepPart", func(ctx context.Context, s *fiber.Shared[[]float64]) (int, error) {
	debug.SetGCPercent(1)
	xs, err := s.Get(ctx)
	if err != nil {
		return 0, err
	}
	at := len(xs) * len(parts) / 20
	parts = append(parts, xs[at:at+10])
	return len(parts), nil
})

// lookAtParts returns the first number of each part, once other memory has had the time to take their place.
var lookAtParts = fiber.Register("lookAtParts", func(context.Context, fibertest.None) (firsts []float64, err error) {
	for range 20 {
		runtime.GC()
		for i, b := range [][]byte{make([]byte, 900_000), make([]byte, 100_000), make([]byte, 1_000)} {
			for j := range b {
				b[j] = byte(i) - 1
			}
		}
	}
	for _, part := range parts {
		for i, x := range part {
			if x != part[0]+float64(i) {
				return nil, errors.New("a part has changed")
			}
		}
		firsts = append(firsts, part[0])
	}
	return firsts, nil
})

// A part of a value stays as it is when the value has been closed, or its home has ended.
func TestPartsOfASharedValue(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	const size = 100_000
	var want []float64
	for i := range 10 {
		s, err := fiber.Share(fibertest.Soon(t), ascending(size))
		require.NoError(t, err)
		_, err = fiber.Apply(fibertest.Soon(t), pool, keepPart, s)
		require.NoError(t, err)
		s.Close()
		want = append(want, float64(size*i/20))
		got, err := fiber.Apply(fibertest.Soon(t), pool, lookAtParts, fibertest.None{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// shareLarge shares numbers, and says who has done so.
var shareLarge = fiber.Register("shareLarge", func(ctx context.Context, n int) (l largeShare, err error) {
	l.PID = os.Getpid()
	l.Value, err = fiber.Share(ctx, ascending(n))
	largeShares = append(largeShares, l.Value)
	return l, err
})

type largeShare struct {
	Value *fiber.Shared[[]float64]
	PID   int
}

var largeShares []*fiber.Shared[[]float64]

// When the home is killed, who has its value keeps it, and nothing else is left.
func TestSharedMemoryOfAKilledProcess(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	l, err := fiber.Apply(fibertest.Soon(t), pool, shareLarge, 1<<20)
	require.NoError(t, err)
	xs, err := l.Value.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(l.PID, syscall.SIGKILL))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return !fibertest.Running(l.PID) }, "the worker is gone")
	require.Equal(t, ascending(1<<20), xs)
}
