package codec

import (
	"reflect"
	"time"
)

// timePlan keeps the zone's offset, which msgpack's own timestamps lose.
var timePlan = plan{
	encode: func(e *encoder, v reflect.Value) error {
		b, err := v.Interface().(time.Time).MarshalBinary()
		if err != nil {
			return own(timeType, err)
		}
		e.ext(extTime, len(b))
		e.buf = append(e.buf, b...)
		return nil
	},
	decode: func(d *decoder, v reflect.Value) error {
		tok, err := d.want(timeType, classExt)
		if err != nil {
			return err
		}
		if tok.sub != extTime {
			return fail(timeType, "found %s", tok)
		}
		if err := v.Addr().Interface().(*time.Time).UnmarshalBinary(d.take(tok.n)); err != nil {
			return own(timeType, err)
		}
		return nil
	},
}
