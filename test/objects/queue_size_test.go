//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
	"github.com/fiber-go/fiber/transport"
)

var _ = fibertest.MainProgram("large items", func(ctx context.Context) error {
	q, err := fiber.NewSimpleQueue[[]byte](fiber.WithCapacity(4))
	if err != nil {
		return err
	}
	var size *transport.SizeError
	large := make([]byte, 1<<20)
	for _, err := range []error{q.Put(ctx, large), q.PutMany(ctx, [][]byte{nil, large})} {
		if !errors.As(err, new(*fiber.EncodeError)) || !errors.As(err, &size) || !strings.Contains(err.Error(), "max_message") {
			return fmt.Errorf("a large item gives %w", err)
		}
	}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := fiber.Apply(ctx, pool, putLarge, q); !errors.Is(err, errLarge) {
		return fmt.Errorf("a large item of a child's gives %w", err)
	}
	if n, err := q.Len(ctx); n != 0 || err != nil {
		return fmt.Errorf("%d items, %w", n, err)
	}
	// Items that fit, each alone.
	many := [][]byte{large[:50<<10], large[:50<<10], large[:50<<10], large[:50<<10]}
	if err := q.PutMany(ctx, many); err != nil {
		return err
	}
	got, err := fiber.Apply(ctx, pool, getLarge, q)
	if err != nil || got != 4*50<<10 {
		return fmt.Errorf("%d bytes, %w", got, err)
	}
	// The first two of them, in two messages; and three small ones in one.
	for n, items := range map[string][][]byte{"2 of 4": many, "2 of 3": make([][]byte, 3)} {
		if err := q.PutMany(ctx, make([][]byte, 2)); err != nil {
			return err
		}
		brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err := q.PutMany(brief, items)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fiber.ErrUnknownOutcome) || !strings.Contains(err.Error(), "only "+n+" items were put") {
			return fmt.Errorf("a part gives %w", err)
		}
		for left := 4; left > 0; {
			got, err := q.GetMany(ctx, left)
			if err != nil {
				return err
			}
			left -= len(got)
		}
		if n, err := q.Len(ctx); n != 0 || err != nil {
			return fmt.Errorf("%d items are left, %w", n, err)
		}
	}
	fmt.Println("fine")
	return nil
})

var errLarge = fiber.RegisterError(errors.New("it is too large"))

var (
	putLarge = fiber.Register("putLarge", func(ctx context.Context, q *fiber.SimpleQueue[[]byte]) (fibertest.None, error) {
		var large *fiber.EncodeError
		if err := q.Put(ctx, make([]byte, 1<<20)); errors.As(err, &large) {
			return fibertest.None{}, errLarge
		}
		return fibertest.None{}, nil
	})

	getLarge = fiber.Register("getLarge", func(ctx context.Context, q *fiber.SimpleQueue[[]byte]) (n int, err error) {
		for range 4 {
			got, err := q.GetMany(ctx, 4)
			if err != nil {
				return n, err
			}
			for _, b := range got {
				n += len(b)
			}
			if n == 4*50<<10 {
				break
			}
		}
		return n, nil
	})
)

func TestLargeItems(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "large items", "FIBER_MAX_MESSAGE=64KiB")
	require.Equal(t, 0, x.Wait(fibertest.Patience))
	require.Equal(t, "fine\n", x.Out.String())
}

// A program makes many queues, with something in them, and drops them.
var _ = fibertest.MainProgram("dropped queues", func(ctx context.Context) error {
	const n, size = 1000, 100 << 10
	if _, err := filledQueues(ctx, 1, size); err != nil {
		return err
	}
	before := consumes()
	qs, err := filledQueues(ctx, n, size)
	if err != nil {
		return err
	}
	if during := consumes(); during.heap < n*size {
		return fmt.Errorf("the queues' items take %d bytes", during.heap)
	}
	runtime.KeepAlive(qs)
	for {
		now := consumes()
		if now.heap < before.heap+n*size/10 && now.goroutines <= before.goroutines+5 && now.files <= before.files {
			fmt.Println("back")
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("before %+v, now %+v", before, now)
		case <-time.After(50 * time.Millisecond):
		}
	}
})

// filledQueues makes queues with an item of so many bytes in each.
func filledQueues(ctx context.Context, n, size int) (qs []*fiber.SimpleQueue[[]byte], err error) {
	for range n {
		q, err := fiber.NewSimpleQueue[[]byte]()
		if err != nil {
			return nil, err
		}
		if err := q.Put(ctx, make([]byte, size)); err != nil {
			return nil, err
		}
		qs = append(qs, q)
	}
	return qs, nil
}

type consumption struct {
	heap              uint64
	goroutines, files int
}

func consumes() consumption {
	runtime.GC()
	runtime.GC() // what cleanups have let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return consumption{m.HeapAlloc, runtime.NumGoroutine(), len(fibertest.OpenFiles())}
}

func TestDroppedQueues(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "dropped queues")
	require.Equal(t, 0, x.Wait(fibertest.Patience)) // they live for some seconds more
	require.Equal(t, "back\n", x.Out.String())
}
