package codec

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"
)

// On littleEndian hosts, which most are, numbers are in memory as on the wire.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// native reports whether numbers of kind k have the same bytes in memory as on
// the wire.
func native(k reflect.Kind) bool {
	return wireSize(k) == 1 || littleEndian && wireSize(k) == hostSize(k)
}

func hostSize(k reflect.Kind) int {
	switch k {
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return bits.UintSize / 8
	default:
		return wireSize(k)
	}
}

// toWire returns the wire bytes of n numbers at p; for native kinds these are
// the memory itself, uncopied.
func toWire(k reflect.Kind, p unsafe.Pointer, n int) []byte {
	if native(k) {
		return unsafe.Slice((*byte)(p), n*wireSize(k))
	}
	return appendPortable(nil, k, p, n)
}

// fromWire writes the numbers in b to p. It returns false if one does not fit a
// 32-bit host's int.
func fromWire(k reflect.Kind, p unsafe.Pointer, b []byte) bool {
	if native(k) {
		copy(unsafe.Slice((*byte)(p), len(b)), b)
		return true
	}
	return readPortable(k, p, b)
}

// appendPortable is toWire for every host, number by number.
func appendPortable(b []byte, k reflect.Kind, first unsafe.Pointer, n int) []byte {
	size := hostSize(k)
	for i := range n {
		p := unsafe.Add(first, i*size)
		switch k {
		case reflect.Int:
			b = binary.LittleEndian.AppendUint64(b, uint64(*(*int)(p)))
		case reflect.Uint, reflect.Uintptr:
			b = binary.LittleEndian.AppendUint64(b, uint64(*(*uint)(p)))
		case reflect.Complex64, reflect.Complex128:
			b = appendPortable(b, half(k), p, 2)
		default:
			switch size {
			case 1:
				b = append(b, *(*byte)(p))
			case 2:
				b = binary.LittleEndian.AppendUint16(b, *(*uint16)(p))
			case 4:
				b = binary.LittleEndian.AppendUint32(b, *(*uint32)(p))
			case 8:
				b = binary.LittleEndian.AppendUint64(b, *(*uint64)(p))
			}
		}
	}
	return b
}

// readPortable is fromWire for every host.
func readPortable(k reflect.Kind, first unsafe.Pointer, b []byte) bool {
	size := hostSize(k)
	for i := 0; len(b) > 0; i, b = i+1, b[wireSize(k):] {
		p := unsafe.Add(first, i*size)
		switch k {
		case reflect.Int:
			n := int64(binary.LittleEndian.Uint64(b))
			if *(*int)(p) = int(n); int64(int(n)) != n {
				return false
			}
		case reflect.Uint, reflect.Uintptr:
			n := binary.LittleEndian.Uint64(b)
			if *(*uint)(p) = uint(n); uint64(uint(n)) != n {
				return false
			}
		case reflect.Complex64, reflect.Complex128:
			readPortable(half(k), p, b[:wireSize(k)])
		default:
			switch size {
			case 1:
				*(*byte)(p) = b[0]
			case 2:
				*(*uint16)(p) = binary.LittleEndian.Uint16(b)
			case 4:
				*(*uint32)(p) = binary.LittleEndian.Uint32(b)
			case 8:
				*(*uint64)(p) = binary.LittleEndian.Uint64(b)
			}
		}
	}
	return true
}

// half returns the kind of the two parts of a complex number.
func half(k reflect.Kind) reflect.Kind {
	if k == reflect.Complex64 {
		return reflect.Float32
	}
	return reflect.Float64
}
