package codec

import (
	"reflect"
	"testing"
	"unsafe"

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
		kind, n := in.Type().Elem().Kind(), in.Len()
		b := appendPortable(nil, kind, in.UnsafePointer(), n)
		assert.Len(t, b, n*wireSize(kind))
		if native(kind) {
			assert.Equal(t, toWire(kind, in.UnsafePointer(), n), b, kind.String())
		}
		out := reflect.MakeSlice(in.Type(), n, n)
		assert.True(t, readPortable(kind, out.UnsafePointer(), b))
		assert.Equal(t, in.Interface(), out.Interface())
	}
	var small int
	fits := readPortable(reflect.Int, unsafe.Pointer(&small), []byte{0, 0, 0, 0, 1, 0, 0, 0})
	assert.Equal(t, hostSize(reflect.Int) == 8, fits)
}
