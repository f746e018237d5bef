package codec

import "reflect"

// array is the plan for arrays.
func (ps planner) array(t reflect.Type) plan {
	if r, ok := runOf(t); ok {
		return arrayOfNumbers(t, run{r.kind, 1}, r.width)
	}
	length, elem := t.Len(), ps.of(t.Elem())
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if err := e.enter(t); err != nil {
				return err
			}
			defer e.leave()
			e.array(length)
			for i := range length {
				if err := elem.encode(e, v.Index(i)); err != nil {
					return inElement(err, i, false)
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			if err := d.enter(t); err != nil {
				return err
			}
			defer d.leave()
			tok, err := d.want(t, classArray)
			if err != nil {
				return err
			}
			if tok.n != length {
				return fail(t, "found %d elements", tok.n)
			}
			for i := range length {
				if err := elem.decode(d, v.Index(i)); err != nil {
					return inElement(err, i, false)
				}
			}
			return nil
		},
	}
}

func arrayOfNumbers(t reflect.Type, r run, length int) plan {
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			return e.numbers(t, r, addressable(v).Addr().UnsafePointer(), length)
		},
		decode: func(d *decoder, v reflect.Value) error {
			b, _, err := d.numbers(t, r)
			if err != nil {
				return err
			}
			if n := len(b) / r.size(); n != length {
				return fail(t, "found %d elements", n)
			}
			if !fromWire(r.kind, v.Addr().UnsafePointer(), b) {
				return fail(t, "an integer does not fit")
			}
			return nil
		},
	}
}

// addressable returns v if it has an address, or else a copy that has one.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}
