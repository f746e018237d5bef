package codec

import (
	"encoding/binary"
	"reflect"
	"strconv"
	"unsafe"
)

// On littleEndian hosts, which most are, numbers are in memory as on the wire.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// native reports whether numbers of kind k have the same bytes in memory as on
// the wire.
func native(k reflect.Kind) bool {
	switch k {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return true
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return littleEndian && strconv.IntSize == 64
	default:
		return littleEndian
	}
}

// memory returns the bytes of v, a slice or an array: of a copy, if the array has
// no address.
func memory(v reflect.Value) []byte {
	size := v.Len() * int(v.Type().Elem().Size())
	if v.Kind() == reflect.Array {
		v = addressable(v).Addr()
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), size)
}

// toWire returns the wire bytes of the runs in v, a slice or an array; for native
// kinds these are the memory itself, uncopied.
func toWire(r run, v reflect.Value) []byte {
	if native(r.kind) {
		return memory(v)
	}
	return appendPortable(nil, v)
}

// fromWire writes the numbers in b, as many as fill it, to v, a slice or an array.
func fromWire(r run, v reflect.Value, b []byte) error {
	if native(r.kind) {
		copy(memory(v), b)
	} else if !readPortable(v, b) {
		return fail(v.Type(), "an integer does not fit")
	}
	return nil
}

// appendPortable is toWire for every host, number by number.
func appendPortable(b []byte, v reflect.Value) []byte {
	for i := range v.Len() {
		switch x := v.Index(i); x.Kind() {
		case reflect.Array:
			b = appendPortable(b, x)
		case reflect.Int:
			b = binary.LittleEndian.AppendUint64(b, uint64(x.Int()))
		case reflect.Uint, reflect.Uintptr:
			b = binary.LittleEndian.AppendUint64(b, x.Uint())
		default:
			b, _ = binary.Append(b, binary.LittleEndian, x.Interface()) // of a fixed size: no error
		}
	}
	return b
}

// readPortable is fromWire for every host. It returns false if a number does not
// fit a 32-bit host's int.
func readPortable(v reflect.Value, b []byte) bool {
	for i, n := 0, v.Len(); i < n; i++ {
		x, size := v.Index(i), len(b)/(n-i)
		switch x.Kind() {
		case reflect.Array:
			if !readPortable(x, b[:size]) {
				return false
			}
		case reflect.Int:
			n := int64(binary.LittleEndian.Uint64(b))
			if x.OverflowInt(n) {
				return false
			}
			x.SetInt(n)
		case reflect.Uint, reflect.Uintptr:
			n := binary.LittleEndian.Uint64(b)
			if x.OverflowUint(n) {
				return false
			}
			x.SetUint(n)
		default:
			if _, err := binary.Decode(b, binary.LittleEndian, x.Addr().Interface()); err != nil {
				return false
			}
		}
		b = b[size:]
	}
	return true
}
