package codec

import (
	"reflect"
	"unsafe"
)

// slice returns the plan for slices. A nil slice stays nil.
func (ps planner) slice(t reflect.Type) plan {
	if r, ok := runOf(t.Elem()); ok {
		return sliceOfNumbers(t, r)
	}
	elem := ps.of(t.Elem())
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if v.IsNil() {
				e.nil()
				return nil
			}
			if err := e.enter(t); err != nil {
				return err
			}
			defer e.leave()
			n := v.Len()
			if err := fits(t, n); err != nil {
				return err
			}
			e.array(n)
			for i := range n {
				if err := elem.encode(e, v.Index(i)); err != nil {
					return inElement(err, i, e.depth == 1)
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			if d.isNil() {
				return nil
			}
			if err := d.enter(t); err != nil {
				return err
			}
			defer d.leave()
			tok, err := d.want(t, classArray)
			if err != nil {
				return err
			}
			if tok.n == 0 {
				v.Set(reflect.MakeSlice(t, 0, 0))
			}
			for i := range tok.n {
				if i == v.Len() {
					n := min(tok.n, max(2*i, 1+firstBytes/(1+int(t.Elem().Size()))))
					v.Grow(n - i)
					v.SetLen(n)
				}
				if err := elem.decode(d, v.Index(i)); err != nil {
					return inElement(err, i, d.depth == 1)
				}
			}
			return nil
		},
	}
}

// firstBytes is how much memory a slice takes before its elements have been seen. In the message an
// element may be one byte; in memory it is as large as its type.
const firstBytes = 1 << 20

// sliceOfNumbers returns the plan for slices of runs.
func sliceOfNumbers(t reflect.Type, r run) plan {
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if v.IsNil() {
				e.nil()
				return nil
			}
			return e.numbers(t, r, v.UnsafePointer(), v.Len())
		},
		decode: func(d *decoder, v reflect.Value) error {
			if d.isNil() {
				return nil
			}
			b, own, err := d.numbers(t, r)
			if err != nil {
				return err
			}
			return setNumbers(v, r.kind, b, own)
		},
	}
}

// setNumbers makes the slice v hold the numbers in b. If b is a frame of its own, v uses its memory
// where possible.
func setNumbers(v reflect.Value, k reflect.Kind, b []byte, own bool) error {
	t := v.Type()
	n := len(b) / wireSize(k) * hostSize(k) / int(t.Elem().Size())
	switch {
	case n == 0:
		v.Set(reflect.MakeSlice(t, 0, 0))
	case own && native(k) && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(t.Elem().Align()) == 0:
		// v gets b's memory, with the length in elements. reflect.SliceAt would allocate.
		*(*[]byte)(v.Addr().UnsafePointer()) = b[:n:n]
	default:
		v.Grow(n)
		v.SetLen(n)
		if !fromWire(k, v.UnsafePointer(), b) {
			return fail(t, "an integer does not fit")
		}
	}
	return nil
}
