package codec_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

func digests[T any](t *testing.T, vs ...T) []uint64 {
	t.Helper()
	all, _ := codec.AppendDigests(nil, reflect.ValueOf(vs), nil)
	require.Len(t, all, 8*len(vs))
	var each []uint64
	for d := range slices.Chunk(all, 8) {
		each = append(each, binary.LittleEndian.Uint64(d))
	}
	return each
}

func TestDigests(t *testing.T) {
	m, same := map[string][]int{}, map[string][]int{}
	for i := range 1000 {
		m[fmt.Sprint(i)] = []int{i}
	}
	for i := range 1000 {
		same[fmt.Sprint(999-i)] = []int{999 - i}
	}
	d := digests(t, m, same, map[string][]int{"1": {1}}, nil)
	require.Equal(t, d[0], d[1])
	require.NotEqual(t, d[0], d[2])
	require.NotEqual(t, d[2], d[3])

	large := make([]float64, 1<<16)
	other := append([]float64{}, large...)
	other[len(other)-1] = 1
	type nested struct {
		A any
		M map[[2]int]map[string]float64
	}
	seen := map[uint64]bool{}
	for _, n := range digests(t, nested{A: large}, nested{A: other}, nested{A: large[1:]}, nested{},
		nested{M: map[[2]int]map[string]float64{{1, 2}: {"a": 1, "b": 2}}}, nested{M: map[[2]int]map[string]float64{{1, 2}: {"a": 2, "b": 1}}}) {
		require.False(t, seen[n])
		seen[n] = true
	}
	// They are kept in files: they stay what they are.
	require.Equal(t, []uint64{0xb456bcfc34c2cb2c, 0x3abf2a20650683e7}, digests(t, 1, 2))
	require.Equal(t, []uint64{0xf2dc0af0a31991b6}, digests(t, nested{A: "x", M: map[[2]int]map[string]float64{{1, 2}: {"a": 1, "b": math.Pi}}}))
	require.Equal(t, digests(t, 1.5, 2), digests(t, [1]float64{1.5}, [1]float64{2}))
	require.NotEqual(t, digests(t, "1"), digests(t, "2"))
}

func TestDigestsOfWhatCannotTravel(t *testing.T) {
	d := digests[any](t, 1, make(chan int), 1, func() {})
	require.Equal(t, []uint64{d[0], 0, d[0], 0}, d)
}
