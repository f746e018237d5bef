package codec

import (
	"reflect"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// pointer returns the plan for pointers: nil, or the value they point to. A
// value that two pointers share arrives as two copies.
func (ps planner) pointer(t reflect.Type) plan {
	elem := ps.of(t.Elem())
	levels := 1
	if t.Elem().Kind() == reflect.Struct {
		levels = 0 // a struct counts its own level: a list of 1000 nodes has 1000
	}
	return nested(t, levels, plan{
		encode: func(e *encoder, v reflect.Value) error {
			start := e.buf.Len()
			if err := elem.encode(e, v.Elem()); err != nil {
				return err
			}
			if c := e.buf.Bytes()[start]; c == msgpcode.Nil || c == codeBoxed { // the last byte is a nil
				e.buf.Truncate(e.buf.Len() - 1)
				e.buf.Write([]byte{codeBoxed, msgpcode.Nil})
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			d.is(codeBoxed)
			v.Set(reflect.New(t.Elem()))
			return elem.decode(d, v.Elem())
		},
	})
}
