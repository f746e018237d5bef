package codec

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Hosts with another byte order than the wire's convert number by number, to
// the same bytes.
func TestPortable(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		&[]bool{true, false}, &[]int{1, -2}, &[]int8{-1}, &[]int16{-2, 300}, &[]int32{-3, 1 << 20}, &[]int64{-4, 1 << 40},
		&[]uint{1}, &[]uint8{255}, &[]uint16{300}, &[]uint32{1 << 20}, &[]uint64{1 << 40}, &[]uintptr{1 << 20},
		&[]float32{1.5}, &[]float64{-1.5}, &[]complex64{1 + 2i}, &[]complex128{3 - 4i, 5},
	} {
		in := reflect.ValueOf(v).Elem()
		r, n := run{in.Type().Elem().Kind(), 1}, in.Len()
		b := appendPortable(nil, in)
		assert.Len(t, b, n*wireSize(r.kind))
		if native(r.kind) {
			assert.Equal(t, toWire(r, in), b, r.kind.String())
		}
		out := reflect.MakeSlice(in.Type(), n, n)
		assert.True(t, readPortable(out, b))
		assert.Equal(t, in.Interface(), out.Interface())
	}
	small := make([]int, 1)
	fits := readPortable(reflect.ValueOf(small), []byte{0, 0, 0, 0, 1, 0, 0, 0})
	assert.Equal(t, strconv.IntSize == 64, fits)
}
