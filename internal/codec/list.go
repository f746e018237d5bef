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
			outermost, most := slice && e.depth == 1, e.alone+few
			each := e.each && outermost
			for i := 0; i < n; i++ {
				var err error
				if e.alone < most {
					if each {
						e.at = e.mark()
					}
					err = elem.encode(e, v.Index(i))
				} else {
					i, err = e.rest(t.Elem(), i, n, func(i int) error {
						if each {
							e.at = e.mark()
						}
						return elem.encode(e, v.Index(i))
					})
				}
				if err == nil {
					continue
				}
				if err = inElement(err, i, outermost); !each {
					return err
				}
				e.failed = append(e.failed, err.(*Error))
				e.back(e.at)
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
			outermost, most := slice && d.depth == 1, d.alone+few
			each := d.each && outermost
			for i := 0; i < n; i++ {
				var err error
				if d.alone < most {
					if each {
						d.at = d.mark()
					}
					err = elem.decode(d, element(v, i, n))
				} else {
					i, err = d.rest(t.Elem(), i, n, func(i int) error {
						if each {
							d.at = d.mark()
						}
						return elem.decode(d, element(v, i, n))
					})
				}
				if err == nil {
					continue
				}
				if err = inElement(err, i, outermost); !each {
					return err
				}
				d.failed = append(d.failed, err.(*Error))
				v.Index(i).SetZero()
				if err := d.pass(d.at); err != nil {
					return typed(err, t)
				}
			}
			return nil
		},
	})
}

// element returns element i of a slice that grows up to n, or of an array.
func element(v reflect.Value, i, n int) reflect.Value {
	if i == v.Len() {
		room := min(n, max(2*i, 1+firstBytes/(1+int(v.Type().Elem().Size()))))
		v.Grow(room - i)
		v.SetLen(room)
	}
	return v.Index(i)
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
