//go:build unix

package objects_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func newList[T any](t testing.TB, m *fiber.Manager, initial ...T) *fiber.List[T] {
	t.Helper()
	return fibertest.Sure(fiber.NewList(fibertest.Soon(t), m, initial...))(t)
}

func elements[T any](t testing.TB, l *fiber.List[T]) []T {
	t.Helper()
	var vs []T
	for i, v := range fibertest.Sure(l.All(fibertest.Soon(t)))(t) {
		require.Equal(t, len(vs), i)
		vs = append(vs, v)
	}
	return vs
}

func TestList(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := newList[string](t, m)
	require.Empty(t, elements(t, l))
	require.NoError(t, l.Append(ctx, "a"))
	require.NoError(t, l.Extend(ctx, []string{"b", "c"}))
	require.NoError(t, l.Extend(ctx, nil))
	require.NoError(t, l.Insert(ctx, 0, "0"))
	require.NoError(t, l.Insert(ctx, 4, "d"))
	require.Equal(t, []string{"0", "a", "b", "c", "d"}, elements(t, l))
	require.Equal(t, 5, fibertest.Sure(l.Len(ctx))(t))
	require.Equal(t, "d", fibertest.Sure(l.Get(ctx, 4))(t))
	require.NoError(t, l.Set(ctx, 1, "A"))
	require.Equal(t, []string{"A", "b"}, fibertest.Sure(l.Slice(ctx, 1, 3))(t))
	require.Empty(t, fibertest.Sure(l.Slice(ctx, 5, 5))(t))
	require.Equal(t, "b", fibertest.Sure(l.Pop(ctx, 2))(t))
	require.NoError(t, l.Delete(ctx, 0))
	require.Equal(t, []string{"A", "c", "d"}, elements(t, l))
	require.NoError(t, l.Append(ctx, "c"))
	require.True(t, fibertest.Sure(l.Remove(ctx, "c"))(t))
	require.Equal(t, []string{"A", "d", "c"}, elements(t, l))
	require.False(t, fibertest.Sure(l.Remove(ctx, "x"))(t))
	require.True(t, fibertest.Sure(l.CompareAndSet(ctx, 1, "d", "D"))(t))
	require.False(t, fibertest.Sure(l.CompareAndSet(ctx, 1, "d", "E"))(t))
	require.Equal(t, "D!", fibertest.Sure(l.Update(ctx, 1, func(s string) (string, error) { return s + "!", nil }))(t))
	_, err := l.Update(ctx, 1, func(string) (string, error) { return "", errShut })
	require.Equal(t, errShut, err)
	require.Equal(t, []string{"A", "D!", "c"}, elements(t, l))
	require.NoError(t, l.Clear(ctx))
	require.Empty(t, elements(t, l))
	require.Equal(t, []int{1, 2, 3}, elements(t, newList(t, m, 1, 2, 3)))
}

func TestListIndices(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l, a := newList(t, m, 1, 2, 3), fibertest.Sure(fiber.NewArray(ctx, m, []int{1, 2, 3}))(t)
	same := func(n int) (int, error) { return n, nil }
	second := func(_ any, err error) error { return err }
	beyond := func(i int) int { // where Insert can't
		if i == 3 {
			return 4
		}
		return i
	}
	before := func(i int) int { // so that two values don't fit
		if i > 0 {
			return i - 1
		}
		return i
	}
	for _, i := range []int{-4, 3, 1 << 40, math.MinInt} {
		for name, err := range map[string]error{
			"Get":           second(l.Get(ctx, i)),
			"Set":           l.Set(ctx, i, 1),
			"Insert":        l.Insert(ctx, beyond(i), 1),
			"Pop":           second(l.Pop(ctx, i)),
			"Delete":        l.Delete(ctx, i),
			"CompareAndSet": second(l.CompareAndSet(ctx, i, 1, 2)),
			"Update":        second(l.Update(ctx, i, same)),
			"Slice from":    second(l.Slice(ctx, i, i)),
			"Slice to":      second(l.Slice(ctx, 0, i)),
			"Array.Get":     second(a.Get(ctx, i)),
			"Array.Set":     a.Set(ctx, i, 1),
			"Array.Update":  second(a.Update(ctx, i, same)),
			"SetSlice":      a.SetSlice(ctx, before(i), []int{1, 2}),
		} {
			switch {
			case i == 3 && (name == "Slice from" || name == "Slice to"):
				require.NoError(t, err, "%s %d", name, i)
			case i == math.MinInt:
				require.ErrorContains(t, err, "there is no index", "%s %d", name, i)
			default:
				require.ErrorContains(t, err, "length", "%s %d", name, i)
			}
			var mismatch *fiber.MismatchError
			require.False(t, err != nil && errors.As(err, &mismatch), "%s %d: %v", name, i, err)
		}
		require.Equal(t, []int{1, 2, 3}, elements(t, l))
	}
	_, err := l.Slice(ctx, 2, 1)
	require.ErrorContains(t, err, "2 to 1")
	_, err = newList[int](t, m).Pop(ctx, 0)
	require.EqualError(t, err, "fiber: the list: there is no index 0; the length is 0")
	require.EqualError(t, a.SetSlice(ctx, 2, []int{1, 2}), "fiber: the array: 2 values from index 2 on do not fit a length of 3")
}

func TestListIndicesFromTheEnd(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l, a := newList(t, m, 1, 2, 3, 4), fibertest.Sure(fiber.NewArray(ctx, m, []int{1, 2, 3, 4}))(t)
	require.Equal(t, 4, fibertest.Sure(l.Get(ctx, -1))(t))
	require.Equal(t, 1, fibertest.Sure(l.Get(ctx, -4))(t))
	require.Equal(t, []int{2, 3}, fibertest.Sure(l.Slice(ctx, -3, -1))(t))
	require.Equal(t, []int{3, 4}, fibertest.Sure(l.Slice(ctx, -2, 4))(t))
	require.NoError(t, l.Set(ctx, -2, 30))
	require.True(t, fibertest.Sure(l.CompareAndSet(ctx, -2, 30, 31))(t))
	require.Equal(t, 32, fibertest.Sure(l.Update(ctx, -2, func(n int) (int, error) { return n + 1, nil }))(t))
	require.NoError(t, l.Insert(ctx, -1, 9))
	require.Equal(t, []int{1, 2, 32, 9, 4}, elements(t, l))
	require.Equal(t, 4, fibertest.Sure(l.Pop(ctx, -1))(t))
	require.NoError(t, l.Delete(ctx, -2))
	require.Equal(t, []int{1, 2, 9}, elements(t, l))
	require.NoError(t, a.SetSlice(ctx, -3, []int{7, 8}))
	require.NoError(t, a.SetSlice(ctx, -1, []int{6}))
	require.Equal(t, []int{1, 7, 8, 6}, fibertest.Sure(a.Slice(ctx, 0, 4))(t))
	require.ErrorContains(t, a.SetSlice(ctx, -1, []int{1, 2}), "2 values from index -1 on")
	_, err := l.Pop(ctx, -4)
	require.EqualError(t, err, "fiber: the list: there is no index -4; the length is 3")
}

// An element is the same one wherever it has moved to.
func TestListUpdateOfAMovedElement(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := newList(t, m, 10, 20)
	calls := 0
	v, err := l.Update(ctx, 1, func(n int) (int, error) {
		if calls++; calls == 1 {
			require.NoError(t, l.Insert(ctx, 0, 5)) // 10 is at 1 now
		}
		return n + 1, nil
	})
	require.NoError(t, err)
	require.Equal(t, 11, v)
	require.Equal(t, []int{5, 11, 20}, elements(t, l))
}

func TestListAllIsASnapshot(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	l := newList(t, m, fibertest.Numbers(50)...)
	for i, v := range fibertest.Sure(l.All(ctx))(t) {
		require.Equal(t, i, v)
		require.Equal(t, v, fibertest.Sure(l.Pop(ctx, 0))(t))
		if i == 29 {
			break
		}
	}
	require.Equal(t, fibertest.Numbers(50)[30:], elements(t, l))
}

func TestArray(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	const n = 5000
	a := fibertest.Sure(fiber.NewArray(ctx, m, make([]float64, n)))(t)
	require.Equal(t, n, fibertest.Sure(a.Len(ctx))(t))
	require.NoError(t, a.Set(ctx, 7, 0.5))
	require.NoError(t, a.SetSlice(ctx, n-2, []float64{1, 2}))
	require.NoError(t, a.SetSlice(ctx, n, nil))
	require.Equal(t, 0.5, fibertest.Sure(a.Get(ctx, 7))(t))
	require.Equal(t, []float64{0, 1, 2}, fibertest.Sure(a.Slice(ctx, n-3, n))(t))
	require.True(t, fibertest.Sure(a.CompareAndSet(ctx, 7, 0.5, 3))(t))
	require.Equal(t, 6.0, fibertest.Sure(a.Update(ctx, 7, func(x float64) (float64, error) { return 2 * x, nil }))(t))
	all := maps.Collect(fibertest.Sure(a.All(ctx))(t))
	require.Len(t, all, n)
	require.Equal(t, []float64{0, 6, 0}, []float64{all[6], all[7], all[8]})
	require.Zero(t, fibertest.Sure(fibertest.Sure(fiber.NewArray(ctx, m, []int(nil)))(t).Len(ctx))(t))
}

// Values that are frames of their own stay whole, alone and with others: more
// than a message has frames.
func TestListOfLargeValues(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	large := func(x int) []int32 { return slices.Repeat([]int32{int32(x)}, 9000) }
	want := make([][]int32, 340)
	for i := range want {
		want[i] = large(i)
	}
	same := func(want, is [][]int32) {
		t.Helper()
		require.True(t, slices.EqualFunc(want, is, slices.Equal[[]int32]))
	}
	l := newList(t, m, want...)
	same(want, elements(t, l))
	require.NoError(t, l.Append(ctx, large(-1)))
	same([][]int32{large(-1)}, [][]int32{fibertest.Sure(l.Get(ctx, 340))(t)})
	same(want[338:], fibertest.Sure(l.Slice(ctx, 338, 340))(t))
}
