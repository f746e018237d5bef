//go:build unix

package objects_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestValue(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	v := fibertest.Sure(fiber.NewValue(ctx, m, []int{1}))(t)
	is := fibertest.Sure(v.Get(ctx))(t)
	require.Equal(t, []int{1}, is)
	is[0] = 9
	require.Equal(t, []int{1}, fibertest.Sure(v.Get(ctx))(t), "a change of a copy was seen")
	require.NoError(t, v.Set(ctx, is))
	require.Equal(t, []int{9}, fibertest.Sure(v.Get(ctx))(t))
	require.False(t, fibertest.Sure(v.CompareAndSet(ctx, []int{8}, nil))(t))
	require.True(t, fibertest.Sure(v.CompareAndSet(ctx, []int{9}, []int{7}))(t))
	require.Equal(t, []int{7, 1}, fibertest.Sure(v.Update(ctx, func(old []int) ([]int, error) { return append(old, 1), nil }))(t))
	_, err := v.Update(ctx, func([]int) ([]int, error) { return nil, errShut })
	require.Equal(t, errShut, err)
	require.Equal(t, []int{7, 1}, fibertest.Sure(v.Get(ctx))(t))
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	n := fibertest.Sure(fiber.NewNamespace(ctx, m))(t)
	var i int
	require.False(t, fibertest.Sure(n.Get(ctx, "x", &i))(t))
	require.NoError(t, n.Set(ctx, "x", 1))
	require.NoError(t, n.Set(ctx, "p", corner{1, 2}))
	require.NoError(t, n.Set(ctx, "l", newList(t, m, "a")))
	require.True(t, fibertest.Sure(n.Get(ctx, "x", &i))(t))
	require.Equal(t, 1, i)
	var p corner
	require.True(t, fibertest.Sure(n.Get(ctx, "p", &p))(t))
	require.Equal(t, corner{1, 2}, p)
	var l *fiber.List[string]
	require.True(t, fibertest.Sure(n.Get(ctx, "l", &l))(t))
	require.NoError(t, l.Append(ctx, "b"))
	require.True(t, fibertest.Sure(n.Get(ctx, "l", &l))(t))
	require.Equal(t, []string{"a", "b"}, elements(t, l))
	require.Equal(t, []string{"x", "p", "l"}, fibertest.Sure(n.Names(ctx))(t))
	require.True(t, fibertest.Sure(n.Delete(ctx, "x"))(t))
	require.False(t, fibertest.Sure(n.Delete(ctx, "x"))(t))

	var mismatch *fiber.MismatchError
	_, err := n.Get(ctx, "p", &i)
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "p in the namespace is not of type int")
	var d *fiber.Dict[string, string]
	_, err = n.Get(ctx, "l", &d)
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "not to a dict")
	for _, bad := range []any{nil, 1, (*int)(nil)} {
		_, err = n.Get(ctx, "p", bad)
		require.ErrorContains(t, err, "pointer")
	}
	var encode *fiber.EncodeError
	require.ErrorAs(t, n.Set(ctx, "f", func() {}), &encode)
}

// countsUp sets a value to 1, 2 and so on.
var countsUp = fiber.Register("countsUp", func(ctx context.Context, v *fiber.Value[int]) (fibertest.None, error) {
	for i := 1; i <= counted; i++ {
		if err := v.Set(ctx, i); err != nil {
			return fibertest.None{}, err
		}
	}
	return fibertest.None{}, nil
})

const counted = 2000

// watches returns what it has seen of a value until it was counted up.
var watches = fiber.Register("watches", func(ctx context.Context, v *fiber.Value[int]) (seen []int, err error) {
	for n, err := range v.Watch(ctx) {
		if err != nil {
			return seen, err
		}
		if seen = append(seen, n); n == counted {
			break
		}
	}
	return seen, nil
})

func TestWatch(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	v := fibertest.Sure(fiber.NewValue(ctx, m, 0))(t)
	pool := fibertest.NewPool(t, 3)
	watching := fiber.MapAsync(ctx, pool, watches, []*fiber.Value[int]{v, v}, fiber.ChunkSize(1))
	counting := fiber.ApplyAsync(ctx, pool, countsUp, v)
	for _, seen := range fibertest.Sure(watching.Get(ctx))(t) {
		require.True(t, slices.IsSorted(seen), seen)
		require.Len(t, slices.Compact(slices.Clone(seen)), len(seen), "a value is seen twice")
	}
	fibertest.Sure(counting.Get(ctx))(t)

	// Nothing that is set while the loop is at work is seen but the latest.
	var seen []int
	for n, err := range v.Watch(ctx) {
		require.NoError(t, err)
		if seen = append(seen, n); n == counted {
			require.NoError(t, v.Set(ctx, -1))
			require.NoError(t, v.Set(ctx, -2))
			continue
		}
		break
	}
	require.Equal(t, []int{counted, -2}, seen)

	// Its context ends it, and so does the manager.
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	var last error
	for _, err := range v.Watch(over) {
		last = err
		cancel()
	}
	require.Equal(t, context.Canceled, last)
	for _, err := range v.Watch(ctx) {
		if last = err; err == nil {
			go m.Close()
		}
	}
	require.ErrorIs(t, last, fiber.ErrClosed)
}
