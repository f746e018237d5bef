package codec

import (
	"reflect"
	"slices"
)

// pointer returns the plan for pointers: nil, or the value they point to. A
// value that two pointers share arrives as two copies.
func (ps planner) pointer(t reflect.Type) plan {
	elem := ps.of(t.Elem())
	counts := t.Elem().Kind() != reflect.Struct // a struct counts its own level: a list of 1000 nodes has 1000
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if v.IsNil() {
				e.nil()
				return nil
			}
			if counts {
				if err := e.enter(t); err != nil {
					return err
				}
				defer e.leave()
			}
			start := len(e.buf)
			if err := elem.encode(e, v.Elem()); err != nil {
				return err
			}
			if c := e.buf[start]; c == codeNil || c == codeBoxed {
				e.buf = slices.Insert(e.buf, start, codeBoxed)
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			if d.isNil() {
				return nil
			}
			if counts {
				if err := d.enter(t); err != nil {
					return err
				}
				defer d.leave()
			}
			if d.left() > 0 && d.buf[d.pos] == codeBoxed {
				d.pos++
			}
			v.Set(reflect.New(t.Elem()))
			return elem.decode(d, v.Elem())
		},
	}
}
