package codec

import (
	"encoding/binary"
	"reflect"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

var stringPlan = plan{
	encode: func(e *encoder, v reflect.Value) error {
		if err := fits(v.Type(), v.Len()); err != nil {
			return err
		}
		return e.EncodeString(v.String())
	},
	decode: func(d *decoder, v reflect.Value) error {
		b, err := d.text(v.Type(), classString)
		v.SetString(string(b))
		return err
	},
}

// scalarPlan returns the plan for a single bool or number.
func scalarPlan(k reflect.Kind) plan {
	switch {
	case k == reflect.Bool:
		return plan{func(e *encoder, v reflect.Value) error { return e.EncodeBool(v.Bool()) }, decodeBool}
	case k <= reflect.Int64:
		return plan{func(e *encoder, v reflect.Value) error { return e.EncodeInt(v.Int()) }, decodeInt}
	case k <= reflect.Uintptr:
		return plan{func(e *encoder, v reflect.Value) error { return e.EncodeUint(v.Uint()) }, decodeUint}
	case k == reflect.Float32:
		return plan{func(e *encoder, v reflect.Value) error { return e.EncodeFloat32(float32(v.Float())) }, decodeFloat}
	case k == reflect.Float64:
		return plan{func(e *encoder, v reflect.Value) error { return e.EncodeFloat64(v.Float()) }, decodeFloat}
	default:
		return plan{encodeComplex, decodeComplex}
	}
}

func decodeBool(d *decoder, v reflect.Value) error {
	code, err := d.want(v.Type(), classBool)
	if err != nil {
		return err
	}
	d.take(1)
	v.SetBool(code == msgpcode.True)
	return nil
}

func decodeInt(d *decoder, v reflect.Value) error {
	code, err := d.want(v.Type(), classInt)
	if err != nil {
		return err
	}
	n, err := d.DecodeInt64()
	switch {
	case err != nil:
		return short(v.Type())
	case code == msgpcode.Uint64 && n < 0, v.OverflowInt(n):
		return fail(v.Type(), "the integer does not fit")
	}
	v.SetInt(n)
	return nil
}

func decodeUint(d *decoder, v reflect.Value) error {
	code, err := d.want(v.Type(), classInt)
	if err != nil {
		return err
	}
	n, err := d.DecodeUint64()
	switch {
	case err != nil:
		return short(v.Type())
	case code != msgpcode.Uint64 && int64(n) < 0, v.OverflowUint(n):
		return fail(v.Type(), "the integer does not fit")
	}
	v.SetUint(n)
	return nil
}

func decodeFloat(d *decoder, v reflect.Value) error {
	code, err := d.want(v.Type(), classFloat)
	if err != nil {
		return err
	}
	x, err := d.DecodeFloat64()
	switch size := 4 << (code - msgpcode.Float); {
	case err != nil:
		return short(v.Type())
	case size != int(v.Type().Size()):
		return fail(v.Type(), "found a float of %d bytes", size)
	}
	v.SetFloat(x)
	return nil
}

func encodeComplex(e *encoder, v reflect.Value) error {
	b, err := binary.Append(nil, binary.BigEndian, v.Interface())
	if err != nil {
		return own(v.Type(), err)
	}
	return e.extension(v.Type(), extComplex, b)
}

func decodeComplex(d *decoder, v reflect.Value) error {
	id, b, err := d.extension(v.Type())
	switch {
	case err != nil:
		return err
	case id != extComplex, len(b) != int(v.Type().Size()):
		return fail(v.Type(), "found extension %d of %d bytes", id, len(b))
	}
	if _, err := binary.Decode(b, binary.BigEndian, v.Addr().Interface()); err != nil {
		return own(v.Type(), err)
	}
	return nil
}
