package codec

import (
	"bytes"
	"cmp"
	"reflect"
	"unsafe"
)

// list returns the plan for slices and arrays. A nil slice stays nil.
func (ps planner) list(t reflect.Type) plan {
	if r, ok := runOf(t.Elem()); ok {
		return listOfNumbers(t, r)
	}
	elem, slice := ps.of(t.Elem()), t.Kind() == reflect.Slice
	return nested(t, 1, plan{
		encode: func(e *encoder, v reflect.Value) error {
			n := v.Len()
			if err := cmp.Or(fits(t, n), e.EncodeArrayLen(n)); err != nil {
				return err
			}
			outermost := slice && e.depth == 1
			for i := range n {
				at := e.mark()
				if err := elem.encode(e, v.Index(i)); err != nil {
					err = inElement(err, i, outermost)
					if !e.alone || !outermost {
						return err
					}
					e.failed = append(e.failed, err.(*Error))
					e.back(at)
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			n, err := d.head(t, classArray)
			switch {
			case err != nil:
				return err
			case !slice && n != v.Len():
				return fail(t, "found %d elements", n)
			case slice && n == 0:
				v.Set(reflect.MakeSlice(t, 0, 0))
			}
			outermost := slice && d.depth == 1
			for i := range n {
				if i == v.Len() {
					room := min(n, max(2*i, 1+firstBytes/(1+int(t.Elem().Size()))))
					v.Grow(room - i)
					v.SetLen(room)
				}
				at := d.mark()
				if err := elem.decode(d, v.Index(i)); err != nil {
					err = inElement(err, i, outermost)
					if !d.alone || !outermost {
						return err
					}
					d.failed = append(d.failed, err.(*Error))
					v.Index(i).SetZero()
					if err := d.pass(at); err != nil {
						return typed(err, t)
					}
				}
			}
			return nil
		},
	})
}

// firstBytes is how much memory a slice takes before its elements have been seen. In the message an
// element may be one byte; in memory it is as large as its type.
const firstBytes = 1 << 20

// listOfNumbers returns the plan for slices and arrays of runs.
func listOfNumbers(t reflect.Type, r run) plan {
	size := r.size()
	return nested(t, 0, plan{
		encode: func(e *encoder, v reflect.Value) error {
			return e.numbers(t, r, toWire(r, v))
		},
		decode: func(d *decoder, v reflect.Value) error {
			b, own, err := d.numbers(t, r)
			switch n := len(b) / size; {
			case err != nil:
				return err
			case t.Kind() == reflect.Slice:
				return setNumbers(v, r, b, own)
			case n != v.Len():
				return fail(t, "found %d elements", n)
			default:
				return fromWire(r, v, b)
			}
		},
	})
}

// setNumbers makes the slice v hold the numbers in b. If b is a frame of its own, v uses its memory
// where possible.
func setNumbers(v reflect.Value, r run, b []byte, own bool) error {
	n := len(b) / r.size()
	elem, first := v.Type().Elem(), unsafe.Pointer(unsafe.SliceData(b))
	switch {
	case n == 0:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return nil
	case own && native(r.kind) && uintptr(first)%uintptr(elem.Align()) == 0:
		v.Set(reflect.SliceAt(elem, first, n))
		return nil
	case r == bytesRun:
		v.SetBytes(bytes.Clone(b))
		return nil
	}
	v.Grow(n)
	v.SetLen(n)
	return fromWire(r, v, b)
}
