package ring

import "unsafe"

// Float is a type of numbers that collectives take.
type Float interface{ ~float32 | ~float64 }

// Bytes returns the memory of a slice.
func Bytes[T Float](xs []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(xs))), len(xs)*int(unsafe.Sizeof(*new(T))))
}

// floats returns the slice whose memory is b, which must be aligned.
func floats[T Float](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// Sum adds src to dst, number by number.
func Sum[T Float](dst, src []byte) {
	d, s := floats[T](dst), floats[T](src)
	for len(d) >= 8 && len(s) >= 8 {
		a, b := (*[8]T)(d), (*[8]T)(s) // saves the bounds checks below
		a[0] += b[0]
		a[1] += b[1]
		a[2] += b[2]
		a[3] += b[3]
		a[4] += b[4]
		a[5] += b[5]
		a[6] += b[6]
		a[7] += b[7]
		d, s = d[8:], s[8:]
	}
	for i := range d {
		d[i] += s[i]
	}
}

// Min keeps the smaller numbers in dst; a NaN on either side wins.
func Min[T Float](dst, src []byte) {
	d, s := floats[T](dst), floats[T](src)
	for i, x := range s[:len(d)] {
		d[i] = min(d[i], x)
	}
}

// Max keeps the larger numbers in dst; a NaN on either side wins.
func Max[T Float](dst, src []byte) {
	d, s := floats[T](dst), floats[T](src)
	for i, x := range s[:len(d)] {
		d[i] = max(d[i], x)
	}
}

// Divide returns a function that divides each number by n.
func Divide[T Float](n int) func(dst []byte) {
	return func(dst []byte) {
		d := floats[T](dst)
		for i := range d {
			d[i] /= T(n)
		}
	}
}
