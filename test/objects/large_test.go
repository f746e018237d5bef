//go:build unix

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// noteKeeper keeps what it is given and gives it away.
type noteKeeper struct{ notes []float64 }

// keepersHere is how many of them live in this process.
var keepersHere atomic.Int64

func (*noteKeeper) Close() error {
	keepersHere.Add(-1)
	return nil
}

var (
	noteKeepers = fiber.RegisterType("noteKeeper", func(_ context.Context, n int) (*noteKeeper, error) {
		keepersHere.Add(1)
		return &noteKeeper{make([]float64, n)}, nil
	})
	keepNotes = fiber.RegisterMethod("Keep", func(k *noteKeeper, _ context.Context, notes []float64) (int, error) {
		k.notes = notes
		return len(notes), nil
	})
	sumNotes = fiber.RegisterMethod("Sum", func(k *noteKeeper, _ context.Context, _ fibertest.None) (sum float64, _ error) {
		for _, x := range k.notes {
			sum += x
		}
		return sum, nil
	})
	// reuse gives away a buffer that its next call fills anew.
	reuse = fiber.RegisterMethod("Reuse", func(k *noteKeeper, _ context.Context, v float64) ([]float64, error) {
		for i := range k.notes {
			k.notes[i] = v
		}
		return k.notes, nil
	})
)

func TestLargeArgumentsAndResults(t *testing.T) {
	t.Parallel()
	const n = 10 << 20 / 8
	k := manage(t, fibertest.NewManager(t), noteKeepers, n)

	// What was returned is the caller's, whatever the object does afterwards.
	futures := make([]*fiber.Future[[]float64], 5)
	for i := range futures {
		futures[i] = fiber.CallAsync(fibertest.Soon(t), k, reuse, float64(i+1))
	}
	for i, f := range futures {
		got, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Len(t, got, n)
		for _, x := range got {
			if x != float64(i+1) {
				require.FailNow(t, "a result has changed", "%v in result %d", x, i)
			}
		}
	}
	// What was given is the object's, whatever the caller does afterwards.
	notes := make([]float64, n)
	for i := range notes {
		notes[i] = 1
	}
	kept := fiber.CallAsync(fibertest.Soon(t), k, keepNotes, notes)
	got, err := kept.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, n, got)
	clear(notes)
	require.Equal(t, float64(n), must(t, k, sumNotes, fibertest.None{}))
}

var _ = fibertest.MainProgram("too large", func(ctx context.Context) error {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := fiber.NewObject(ctx, m, noteKeepers, 1<<20)
	if err != nil {
		return err
	}
	var remote *fiber.RemoteError
	var large *fiber.EncodeError
	_, err = fiber.Call(ctx, k, reuse, 1)
	fmt.Println(errors.As(err, &remote), errors.As(err, &large), err)
	_, err = fiber.Call(ctx, k, keepNotes, make([]float64, 1<<20))
	fmt.Println(errors.As(err, &remote), errors.As(err, &large), err)
	_, err = fiber.NewObject(ctx, m, nils, nil)
	if err != nil {
		return err
	}
	n, err := fiber.Call(ctx, k, keepNotes, make([]float64, 1000))
	fmt.Println(n, err)
	list, err := fiber.NewList[[]float64](ctx, m, nil)
	if err != nil {
		return err
	}
	for range 2 {
		if err := list.Append(ctx, make([]float64, 100_000)); err != nil {
			return err
		}
	}
	_, err = list.All(ctx)
	var mismatch *fiber.MismatchError
	fmt.Println(errors.As(err, &mismatch), errors.As(err, &large), err)
	one, err := list.Get(ctx, 1)
	fmt.Println(len(one), err)
	return nil
}, fiber.Config{MaxMessage: 1 << 20})

func TestValuesThatAreTooLargeForAMessage(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "too large")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Regexp(t, `^true true fiber: .*Reuse in Manager-1: the result: .*; set max_message \(FIBER_MAX_MESSAGE\) higher, or send it in parts
false true fiber: the argument of .*Keep: .*; set max_message \(FIBER_MAX_MESSAGE\) higher, or send it in parts
1000 <nil>
false true fiber: the answer of the list: .*; set max_message \(FIBER_MAX_MESSAGE\) higher, or send it in parts
100000 <nil>
$`, x.Out.String())
}
