package fiber

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
)

// References are found wherever an argument has them, but for maps, and only the first few.
func TestRefsIn(t *testing.T) {
	t.Parallel()
	shared := func(n uint64) *Shared[int] {
		s := new(Shared[int])
		s.p.h = &handle{ref: object.Ref{Object: n}}
		return s
	}
	type inner struct {
		Value  *Shared[int]
		Any    any
		hidden *Shared[int]
	}
	type arg struct {
		inner
		When    time.Time
		Numbers []float64
		Rows    [][]string
		Pair    [2]*Shared[int]
		Deep    *inner
		Map     map[int]*Shared[int]
		Guarded guarded
		Many    []*Shared[int]
		Self    *arg
	}
	found := func(x any) (all []uint64) {
		for _, ref := range refsIn(x) {
			all = append(all, ref.Object)
		}
		return all
	}
	a := arg{inner: inner{shared(1), nil, shared(100)}, Rows: make([][]string, 1000), Numbers: make([]float64, 1000), Pair: [2]*Shared[int]{shared(2), nil},
		Deep: &inner{Value: new(Shared[int]), Any: []any{7, shared(3), &inner{Any: shared(4)}}}, Map: map[int]*Shared[int]{1: shared(101)},
		Guarded: guarded{shared(102)}}
	require.Equal(t, []uint64{1, 2, 3, 4}, found(&a))
	for n := range uint64(10_000) {
		a.Many = append(a.Many, shared(10+n))
	}
	a.Self = &a
	require.Equal(t, []uint64{1, 2, 3, 4, 10, 11, 12, 13}, found(&a))
	require.Empty(t, found(new(arg)))
	require.Empty(t, found(new(int)))
	one := shared(9)
	require.Equal(t, []uint64{9}, found(&one))
	loop := &arg{}
	loop.Self = loop
	require.Empty(t, found(loop))
}

// guarded has an encoding of its own.
type guarded struct{ Value *Shared[int] }

func (g guarded) MarshalBinary() ([]byte, error)  { return g.Value.MarshalBinary() }
func (g *guarded) UnmarshalBinary(b []byte) error { return g.Value.UnmarshalBinary(b) }
