package queue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line may use the memory of what it adopts, and gives its own away when all is
// taken: neither is used twice.
func TestLineAdopts(t *testing.T) {
	t.Parallel()
	many := func(from int) []int {
		things := make([]int, 2*small)
		for i := range things {
			things[i] = from + i
		}
		return things
	}
	var l line[int]
	l.adopt(many(0))
	first := l.take(2 * small)
	require.Equal(t, many(0), first)
	l.adopt(many(1))
	l.adopt(many(2))
	second := l.take(2 * small)
	l.push(9)
	require.Equal(t, append(many(2), 9), l.take(l.len()))
	l.adopt([]int{1})
	require.Equal(t, []int{1}, l.all())
	require.Equal(t, many(0), first)
	require.Equal(t, many(1), second)
}

// A line is a slice that is seldom copied.
func TestLine(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var l line[int]
	var want []int
	for i := range 1000 {
		l.push(i)
		want = append(want, i)
	}
	var array *int
	moved, next := 0, 0
	some := func() (things []int) {
		for range random.IntN(5) {
			next++
			things = append(things, next)
		}
		return things
	}
	const steps = 20_000
	for i := range steps {
		switch random.IntN(8) {
		case 0, 1, 2, 3, 4:
			things := some()
			l.push(things...)
			want = append(want, things...)
		case 5, 6:
			n := min(random.IntN(6), len(want))
			l.shift(n)
			want = want[n:]
		default:
			n := min(random.IntN(12), len(want))
			l.shift(n)
			want = want[n:]
			if i%97 == 0 {
				l.remove(func(x int) bool { return x%3 == 0 })
				want = slices.DeleteFunc(slices.Clone(want), func(x int) bool { return x%3 == 0 })
			}
		}
		if len(want) != l.len() {
			require.Len(t, want, l.len())
		}
		if i%1000 == 0 {
			require.True(t, slices.Equal(want, l.all()))
			require.False(t, slices.ContainsFunc(l.array[:l.first], func(x int) bool { return x != 0 }))
		}
		if a := l.array[:cap(l.array)]; len(a) > 0 && &a[len(a)-1] != array {
			array = &a[len(a)-1]
			moved++
		}
	}
	require.Less(t, moved, steps/20)
}
