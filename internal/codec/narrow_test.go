package codec_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

func bytesOf(frames [][]byte) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}

// Many small integers travel in as few bytes as the largest of them needs.
func TestNarrow(t *testing.T) {
	t.Parallel()
	if strconv.IntSize == 32 {
		t.Skip("ints are no integers of eight bytes here")
	}
	const n = 1 << 16
	for _, test := range []struct {
		lo, hi int64
		size   int
	}{
		{0, 0, 1}, {math.MinInt8, math.MaxInt8, 1}, {0, math.MaxInt8 + 1, 2}, {math.MinInt8 - 1, 0, 2}, {math.MinInt16, math.MaxInt16, 2},
		{0, math.MaxInt16 + 1, 4}, {math.MinInt32, math.MaxInt32, 4}, {0, math.MaxInt32 + 1, 8}, {math.MinInt32 - 1, 0, 8}, {math.MinInt64, math.MaxInt64, 8},
	} {
		ints, rows, times := make([]int, n), make([][2]int64, n/2), make([]uint64, n)
		ints[0], ints[n-1] = int(test.lo), int(test.hi)
		rows[0][1], rows[n/2-1][0] = test.lo, test.hi
		times[n/2] = uint64(test.hi)
		frames, err := codec.Marshal(ints)
		require.NoError(t, err)
		assert.InDelta(t, n*test.size, bytesOf(frames), 16, "%+v", test)
		assert.Equal(t, ints, trip(t, ints))
		assert.Equal(t, rows, trip(t, rows))
		assert.Equal(t, times, trip(t, times))
		assert.Equal(t, any(ints), trip(t, any(ints)))
	}
	most := make([]uint, n)
	most[n-1] = math.MaxUint
	assert.Equal(t, most, trip(t, most))
	for _, x := range []any{make([]float64, n), make([]int32, n)} {
		frames, err := codec.Marshal(x)
		require.NoError(t, err)
		assert.Greater(t, bytesOf(frames), 4*n)
	}
}

// Data that claims to be narrow and cannot be is an error.
func TestNarrowThatIsNone(t *testing.T) {
	t.Parallel()
	frames, err := codec.Marshal(make([]int, 1<<16))
	require.NoError(t, err)
	require.Len(t, frames, 2)
	kind := len(frames[0]) - 1
	for how, broken := range map[string][2][]byte{
		"floats": {append(append([]byte(nil), frames[0][:kind]...), 1<<5|14), frames[1]},
		"int32s": {append(append([]byte(nil), frames[0][:kind]...), 1<<5|5), frames[1]},
		"odd":    {append(append([]byte(nil), frames[0][:kind]...), 2<<5|2), frames[1][:3]},
	} {
		for _, out := range []any{new([]int), new([]float64), new(any)} {
			require.Error(t, codec.Unmarshal([][]byte{broken[0], broken[1]}, out), how)
		}
	}
}
