//go:build unix

package pool_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// imaps are the two of them.
var imaps = map[string]func(context.Context, *fiber.Pool, *fiber.Func[int, int], iter.Seq[int], ...fiber.CallOption) iter.Seq2[int, error]{
	"ordered":   fiber.IMap[int, int],
	"unordered": fiber.IMapUnordered[int, int],
}

// endless counts up for ever, and counts how far it was read.
func endless(read *atomic.Int64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
			read.Store(int64(i) + 1)
		}
	}
}

var errOdd = fiber.RegisterError(errors.New("odd"))

var oddFails = fiber.Register("oddFails", func(_ context.Context, x int) (int, error) {
	if x%2 == 1 {
		return 0, errOdd
	}
	return x, nil
})

func TestIMap(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 4)
	for name, imap := range imaps {
		for _, n := range []int{0, 1, 5, 63, 64, 65, 5000} {
			for _, chunk := range []int{0, 1, 7} {
				var got []int
				for out, err := range imap(fibertest.Soon(t), pool, fibertest.Square, slices.Values(fibertest.Numbers(n)), fibertest.Chunks(chunk)...) {
					require.NoError(t, err)
					got = append(got, out)
				}
				if name == "unordered" {
					slices.Sort(got)
				}
				require.Len(t, got, n)
				for i, out := range got {
					require.Equal(t, i*i, out)
				}
			}
		}
	}
}

// A failure comes in its place, and the loop goes on.
func TestIMapGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3)
	for _, chunk := range []int{0, 1, 10} {
		i := 0
		for out, err := range fiber.IMap(fibertest.Soon(t), pool, oddFails, slices.Values(fibertest.Numbers(501)), fibertest.Chunks(chunk)...) {
			if i%2 == 1 {
				require.ErrorIs(t, err, errOdd)
			} else {
				require.NoError(t, err)
				require.Equal(t, i, out)
			}
			i++
		}
		require.Equal(t, 501, i)
	}
}

// What a slow input has yielded goes out at once: here it yields the next
// value only when it has seen the last one's result.
func TestIMapDoesNotWaitForInput(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	for _, imap := range imaps {
		results := make(chan int, 1)
		results <- 3
		ins := func(yield func(int) bool) {
			for range 6 {
				if !yield(<-results) {
					return
				}
			}
		}
		n := 0
		for out, err := range imap(fibertest.Soon(t), pool, fibertest.Square, ins) {
			require.NoError(t, err)
			results <- out % 1000
			n++
		}
		require.Equal(t, 6, n)
	}
}

// An endless input runs in bounded memory: it is not read further ahead than
// 64 MiB of it, however slowly the results are taken.
func TestIMapIsBoundedOverEndlessInput(t *testing.T) {
	pool := fibertest.NewPool(t, 2)
	const size = 16 << 10
	var read atomic.Int64
	ins := func(yield func([]byte) bool) {
		for yield(make([]byte, size)) {
			read.Add(1)
		}
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var most uint64
	var furthest, taken int64
	for out, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Shrink, ins) {
		require.NoError(t, err)
		require.Equal(t, size, out)
		taken++
		furthest = max(furthest, read.Load()-taken)
		if taken%2000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		if taken == 20_000 { // 312 MiB have gone through
			break
		}
	}
	require.LessOrEqual(t, furthest, int64(64<<20/size)*5/4, "read too far ahead")
	require.Less(t, most-min(most, before.HeapAlloc), uint64(200<<20), "too much memory")
	t.Logf("read at most %d inputs of %d KiB ahead; heap at most %d MiB above %d MiB",
		furthest, size>>10, (most-min(most, before.HeapAlloc))>>20, before.HeapAlloc>>20)
}

// Leaving the loop cancels what runs and ends the reading of the input.
func TestLeavingAnIMap(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	left := make(chan struct{})
	ins := func(yield func(time.Duration) bool) {
		defer close(left)
		for yield(0) && yield(time.Hour) {
		}
	}
	for _, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Rest, ins) {
		require.NoError(t, err)
		break
	}
	select {
	case <-left:
	case <-fibertest.Soon(t).Done():
		t.Fatal("the input is still read")
	}
	_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(100))
	require.NoError(t, err, "both workers are free: rest heeds its context")
}

func TestIMapEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	for _, imap := range imaps {
		ctx, cancel := context.WithCancel(fibertest.Soon(t))
		var read atomic.Int64
		n, last := 0, error(nil)
		for _, err := range imap(ctx, pool, fibertest.Square, endless(&read)) {
			last = err
			if n++; n == 100 {
				cancel()
			}
		}
		require.ErrorIs(t, last, context.Canceled)
		cancel()
	}
}

// Closing the pool ends an endless IMap, from inside its loop, too: what was
// read is yielded, and then ErrClosed.
func TestClosingAPoolEndsItsIMaps(t *testing.T) {
	t.Parallel()
	for _, imap := range imaps {
		pool := fibertest.NewPool(t, 2)
		var read atomic.Int64
		n, last := 0, error(nil)
		for _, err := range imap(fibertest.Soon(t), pool, fibertest.Square, endless(&read)) {
			require.NoError(t, last, "something came after the error")
			last = err
			if n++; n == 100 {
				pool.Close()
			}
		}
		require.ErrorIs(t, last, fiber.ErrClosed)
		require.GreaterOrEqual(t, n, 100)
	}
}

// potter takes its time.
var potter = fiber.Register("potter", func(_ context.Context, x int) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return x, nil
})

// Close waits for the tasks that run, and not for what was read ahead of them.
func TestClosingAPoolEndsManyIMaps(t *testing.T) {
	t.Parallel()
	const workers, loops = 2, 10
	pool := fibertest.NewPool(t, workers)
	fibertest.Warm(t, pool)
	var yielded, cut atomic.Int64
	var wg sync.WaitGroup
	for i := range loops {
		imap := imaps[[]string{"ordered", "unordered"}[i%2]]
		wg.Go(func() {
			for _, err := range imap(fibertest.Soon(t), pool, potter, endless(new(atomic.Int64))) {
				if err == nil {
					yielded.Add(1)
				} else if errors.Is(err, fiber.ErrClosed) {
					cut.Add(1)
				}
			}
		})
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Done > 5*loops }, "they work")
	before := pool.Stats()
	require.Greater(t, before.Queued, 50*workers, "they have read ahead")
	pool.Close()
	wg.Wait()
	require.EqualValues(t, loops, cut.Load(), "loops that ended with ErrClosed")
	// Some may have gone on between the look and the Close.
	require.Less(t, pool.Stats().Done-before.Done, before.Queued/4, "what had not begun was run")
	require.LessOrEqual(t, int(yielded.Load()), pool.Stats().Done)
}

func TestIMapInputThatPanics(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	ins := func(yield func(int) bool) {
		yield(1)
		panic("no more")
	}
	defer func() {
		require.True(t, strings.Contains(recover().(string), "no more"))
		out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 5)
		require.NoError(t, err)
		require.Equal(t, 25, out)
	}()
	for range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, ins) {
	}
	t.Fatal("the panic was lost")
}

func TestIMapProgress(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	var done, total int
	for _, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, slices.Values(fibertest.Numbers(300)), fiber.OnProgress(func(p fiber.Progress) {
		d, n := p.Done, p.Total
		require.GreaterOrEqual(t, d, done)
		require.True(t, n == -1 || n == 300)
		done, total = d, n
	})) {
		require.NoError(t, err)
	}
	require.Equal(t, 300, done)
	require.Equal(t, 300, total)

	var none []fiber.Progress
	for range fiber.Results(fibertest.Soon(t), pool, fibertest.Square, slices.Values([]int{}), fiber.OnProgress(func(p fiber.Progress) { none = append(none, p) })) {
		t.Fatal("there is no input")
	}
	last := none[len(none)-1]
	require.Zero(t, last.Total)
	require.True(t, last.Over)
}

// An input may end long after its last task: OnProgress is told the true total
// all the same, and last.
func TestOnProgressOfAnInputThatEndsLate(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	const n = 10
	for name, imap := range imaps {
		all, last := make(chan fibertest.None), [2]int{}
		ins := func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
			<-all
		}
		for _, err := range imap(fibertest.Soon(t), pool, fibertest.Square, ins, fiber.OnProgress(func(p fiber.Progress) {
			if last = [2]int{p.Done, p.Total}; last == [2]int{n, -1} {
				close(all)
			}
		})) {
			require.NoError(t, err)
		}
		require.Equal(t, [2]int{n, n}, last, name)
	}
}
