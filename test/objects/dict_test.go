//go:build unix

package objects_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// got is sure for what may not be there, and has to be.
func got[T any](v T, ok bool, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		require.True(t, ok, "it is not there")
		return v
	}
}

func newDict[K comparable, V any](t testing.TB, m *fiber.Manager) *fiber.Dict[K, V] {
	t.Helper()
	return fibertest.Sure(fiber.NewDict[K, V](fibertest.Soon(t), m))(t)
}

func contents[K comparable, V any](t testing.TB, d *fiber.Dict[K, V]) map[K]V {
	t.Helper()
	return maps.Collect(fibertest.Sure(d.All(fibertest.Soon(t)))(t))
}

func TestDict(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	d := newDict[string, []int](t, m)

	_, ok, err := d.Get(ctx, "a")
	require.NoError(t, err)
	require.False(t, ok)
	require.False(t, fibertest.Sure(d.Has(ctx, "a"))(t))
	require.NoError(t, d.Set(ctx, "b", []int{1}))
	require.NoError(t, d.Set(ctx, "a", nil))
	require.NoError(t, d.Set(ctx, "c", []int{3, 4}))
	require.Equal(t, []int{1}, got(d.Get(ctx, "b"))(t))
	require.Nil(t, got(d.Get(ctx, "a"))(t))
	require.True(t, fibertest.Sure(d.Has(ctx, "a"))(t))
	require.Equal(t, 3, fibertest.Sure(d.Len(ctx))(t))

	// Keys stay in the order in which they came, also when they are set again.
	require.NoError(t, d.Set(ctx, "b", []int{2}))
	require.Equal(t, []string{"b", "a", "c"}, fibertest.Sure(d.Keys(ctx))(t))
	require.Equal(t, [][]int{{2}, nil, {3, 4}}, fibertest.Sure(d.Values(ctx))(t))
	require.True(t, fibertest.Sure(d.Delete(ctx, "b"))(t))
	require.False(t, fibertest.Sure(d.Delete(ctx, "b"))(t))
	require.NoError(t, d.Set(ctx, "b", nil))
	require.Equal(t, []string{"a", "c", "b"}, fibertest.Sure(d.Keys(ctx))(t))

	require.Equal(t, []int{3, 4}, fibertest.Sure(d.SetDefault(ctx, "c", []int{9}))(t))
	require.Equal(t, []int{9}, fibertest.Sure(d.SetDefault(ctx, "d", []int{9}))(t))
	require.Equal(t, []int{9}, got(d.Pop(ctx, "d"))(t))
	_, ok, err = d.Pop(ctx, "d")
	require.NoError(t, err)
	require.False(t, ok)

	require.NoError(t, d.SetMany(ctx, map[string][]int{"x": {1}, "y": {2}, "a": {3}}))
	require.Equal(t, map[string][]int{"a": {3}, "c": {3, 4}, "b": nil, "x": {1}, "y": {2}}, contents(t, d))
	require.NoError(t, d.SetMany(ctx, nil))
	require.NoError(t, d.Clear(ctx))
	require.Zero(t, fibertest.Sure(d.Len(ctx))(t))
	require.Empty(t, contents(t, d))
	require.Empty(t, fibertest.Sure(d.Keys(ctx))(t))
	require.NoError(t, d.Set(ctx, "z", []int{1}))
	require.Equal(t, []string{"z"}, fibertest.Sure(d.Keys(ctx))(t))
}

// The loop over a dict sees it as it was, and may change it.
func TestDictAllIsASnapshot(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	d := newDict[int, int](t, m)
	for i := range 100 {
		require.NoError(t, d.Set(ctx, i, i*i))
	}
	seen := 0
	for k, v := range fibertest.Sure(d.All(ctx))(t) {
		require.Equal(t, seen, k)
		require.Equal(t, k*k, v)
		require.True(t, fibertest.Sure(d.Delete(ctx, k))(t))
		if seen++; seen == 60 {
			break
		}
	}
	require.Equal(t, 40, fibertest.Sure(d.Len(ctx))(t))
	require.Equal(t, 60, fibertest.Sure(d.Keys(ctx))(t)[0])
}

type corner struct{ X, Y int }

func TestDictKeysOfManyTypes(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	points := newDict[corner, string](t, m)
	require.NoError(t, points.Set(ctx, corner{1, 2}, "a"))
	require.NoError(t, points.Set(ctx, corner{2, 1}, "b"))
	require.Equal(t, "a", got(points.Get(ctx, corner{1, 2}))(t))
	require.Equal(t, []corner{{1, 2}, {2, 1}}, fibertest.Sure(points.Keys(ctx))(t))

	long := newDict[[1 << 16]byte, int](t, m) // a frame of its own
	var one, two [1 << 16]byte
	one[7], two[8] = 1, 1
	require.NoError(t, long.Set(ctx, one, 1))
	require.NoError(t, long.Set(ctx, two, 2))
	require.Equal(t, 1, got(long.Get(ctx, one))(t))
	require.Equal(t, 2, got(long.Pop(ctx, two))(t))
	require.Equal(t, [][1 << 16]byte{one}, fibertest.Sure(long.Keys(ctx))(t))

	mixed := newDict[any, int](t, m)
	require.NoError(t, mixed.Set(ctx, "1", 1))
	require.NoError(t, mixed.Set(ctx, 1, 2))
	require.Equal(t, 2, fibertest.Sure(mixed.Len(ctx))(t))
	require.Equal(t, 2, got(mixed.Get(ctx, 1))(t))
}

// More and larger values than a message has frames for, all in one step.
func TestDictOfLargeValues(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	d := newDict[int, []float64](t, m)
	want := map[int][]float64{}
	for i := range 340 {
		want[i] = slices.Repeat([]float64{float64(i)}, 4200)
	}
	same := func() {
		t.Helper()
		require.True(t, maps.EqualFunc(want, contents(t, d), slices.Equal[[]float64]))
	}
	require.NoError(t, d.SetMany(ctx, want))
	same()
	delete(want, 3)
	require.Equal(t, 3.0, got(d.Pop(ctx, 3))(t)[4199])
	same()
}

func TestDictCompareAndSet(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	d := newDict[string, map[int]float64](t, m)
	old := map[int]float64{}
	for i := range 20 { // in whatever order they are encoded
		old[i] = float64(i)
	}
	require.False(t, fibertest.Sure(d.CompareAndSet(ctx, "k", nil, old))(t), "a key that is not there")
	require.NoError(t, d.Set(ctx, "k", old))
	require.False(t, fibertest.Sure(d.CompareAndSet(ctx, "k", map[int]float64{1: 1}, nil))(t))
	require.True(t, fibertest.Sure(d.CompareAndSet(ctx, "k", old, map[int]float64{0: math.NaN()}))(t))
	require.True(t, fibertest.Sure(d.CompareAndSet(ctx, "k", map[int]float64{0: math.NaN()}, nil))(t), "the same bytes")
	require.True(t, fibertest.Sure(d.CompareAndSet(ctx, "k", nil, map[int]float64{}))(t))
	require.False(t, fibertest.Sure(d.CompareAndSet(ctx, "k", nil, old))(t), "an empty map is no nil one")

	lists := newDict[string, *fiber.List[int]](t, m)
	a, b := newList(t, m, 1), newList(t, m, 1)
	require.NoError(t, lists.Set(ctx, "l", a))
	require.False(t, fibertest.Sure(lists.CompareAndSet(ctx, "l", b, b))(t), "another list with the same in it")
	require.True(t, fibertest.Sure(lists.CompareAndSet(ctx, "l", a, b))(t))
}

func TestDictUpdate(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	d := newDict[string, int](t, m)
	n, err := d.Update(ctx, "n", func(old int, ok bool) (int, error) {
		require.False(t, ok)
		require.Zero(t, old)
		return 5, nil
	})
	require.NoError(t, err)
	require.Equal(t, 5, n)

	// Somebody else is faster, three times: sets it, takes it out, sets it anew.
	var seen []int
	n, err = d.Update(ctx, "n", func(old int, ok bool) (int, error) {
		seen = append(seen, old)
		switch len(seen) {
		case 1:
			require.NoError(t, d.Set(ctx, "n", 5)) // the same value, written again
		case 2:
			require.True(t, fibertest.Sure(d.Delete(ctx, "n"))(t))
		case 3:
			require.False(t, ok)
			require.NoError(t, d.Set(ctx, "n", 70))
		}
		return old + 1, nil
	})
	require.NoError(t, err)
	require.Equal(t, []int{5, 5, 0, 70}, seen)
	require.Equal(t, 71, n)
	require.Equal(t, 71, got(d.Get(ctx, "n"))(t))

	_, err = d.Update(ctx, "n", func(int, bool) (int, error) { return 1, errShut })
	require.Equal(t, errShut, err)
	require.Equal(t, 71, got(d.Get(ctx, "n"))(t))
}

type counts struct {
	Dict  *fiber.Dict[string, int]
	List  *fiber.List[int]
	Array *fiber.Array[int]
	Value *fiber.Value[int]
	Times int
}

// countAll adds one to each of four counters, so often, in four ways.
var countAll = fiber.Register("countAll", func(ctx context.Context, c counts) (time.Duration, error) {
	begin := time.Now()
	plus := func(n int) (int, error) { return n + 1, nil }
	for range c.Times {
		_, err1 := c.Dict.Update(ctx, "n", func(n int, _ bool) (int, error) { return n + 1, nil })
		_, err2 := c.List.Update(ctx, 1, plus)
		_, err3 := c.Array.Update(ctx, 2, plus)
		if err := errors.Join(err1, err2, err3); err != nil {
			return 0, err
		}
		for done := false; !done; { // and by hand
			n, err := c.Value.Get(ctx)
			if err != nil {
				return 0, err
			}
			if done, err = c.Value.CompareAndSet(ctx, n, n+1); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(begin), nil
})

func TestNoIncrementIsLost(t *testing.T) {
	t.Parallel()
	const processes, times = 4, 100
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	c := counts{Dict: newDict[string, int](t, m), List: newList(t, m, 0, 0, 0), Times: times,
		Array: fibertest.Sure(fiber.NewArray(ctx, m, make([]int, 3)))(t), Value: fibertest.Sure(fiber.NewValue(ctx, m, 0))(t)}
	pool := fibertest.NewPool(t, processes)
	fibertest.Warm(t, pool)
	took := fibertest.Sure(fiber.Map(ctx, pool, countAll, slices.Repeat([]counts{c}, processes), fiber.ChunkSize(1)))(t)
	t.Logf("%d processes, %d increments of 4 counters each: %v", processes, times, slices.Max(took))
	require.Equal(t, processes*times, got(c.Dict.Get(ctx, "n"))(t))
	require.Equal(t, processes*times, fibertest.Sure(c.List.Get(ctx, 1))(t))
	require.Equal(t, processes*times, fibertest.Sure(c.Array.Get(ctx, 2))(t))
	require.Equal(t, processes*times, fibertest.Sure(c.Value.Get(ctx))(t))
}
