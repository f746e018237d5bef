package codec

import (
	"encoding/binary"
	"math"
	"reflect"
)

var stringPlan = plan{
	encode: func(e *encoder, v reflect.Value) error {
		s := v.String()
		if err := fits(v.Type(), len(s)); err != nil {
			return err
		}
		e.string(s)
		return nil
	},
	decode: func(d *decoder, v reflect.Value) error {
		tok, err := d.want(v.Type(), classString)
		if err != nil {
			return err
		}
		v.SetString(string(d.take(tok.n)))
		return nil
	},
}

// numberPlan returns the plan for a single bool or number.
func numberPlan(k reflect.Kind) plan {
	switch {
	case k == reflect.Bool:
		return plan{encode: encodeBool, decode: decodeBool}
	case k <= reflect.Int64:
		return plan{encode: encodeInt, decode: decodeInt}
	case k <= reflect.Uintptr:
		return plan{encode: encodeUint, decode: decodeUint}
	case k == reflect.Float32:
		return plan{encode: encodeFloat32, decode: decodeFloat}
	case k == reflect.Float64:
		return plan{encode: encodeFloat64, decode: decodeFloat}
	default:
		return plan{encode: encodeComplex, decode: decodeComplex}
	}
}

func encodeBool(e *encoder, v reflect.Value) error    { e.bool(v.Bool()); return nil }
func encodeInt(e *encoder, v reflect.Value) error     { e.int(v.Int()); return nil }
func encodeUint(e *encoder, v reflect.Value) error    { e.uint(v.Uint()); return nil }
func encodeFloat32(e *encoder, v reflect.Value) error { e.float32(float32(v.Float())); return nil }
func encodeFloat64(e *encoder, v reflect.Value) error { e.float64(v.Float()); return nil }

func encodeComplex(e *encoder, v reflect.Value) error {
	c := v.Complex()
	if v.Kind() == reflect.Complex64 {
		e.ext(extComplex, 8)
		e.buf = binary.BigEndian.AppendUint32(e.buf, math.Float32bits(float32(real(c))))
		e.buf = binary.BigEndian.AppendUint32(e.buf, math.Float32bits(float32(imag(c))))
		return nil
	}
	e.ext(extComplex, 16)
	e.buf = binary.BigEndian.AppendUint64(e.buf, math.Float64bits(real(c)))
	e.buf = binary.BigEndian.AppendUint64(e.buf, math.Float64bits(imag(c)))
	return nil
}

func decodeBool(d *decoder, v reflect.Value) error {
	tok, err := d.want(v.Type(), classBool)
	if err != nil {
		return err
	}
	v.SetBool(tok.bits == 1)
	return nil
}

func decodeInt(d *decoder, v reflect.Value) error {
	tok, err := d.token()
	if err != nil {
		return typed(err, v.Type())
	}
	switch {
	case tok.class != classInt && tok.class != classUint:
		return fail(v.Type(), "found %s instead of an integer", tok)
	case tok.class == classUint && tok.bits > math.MaxInt64, v.OverflowInt(int64(tok.bits)):
		return fail(v.Type(), "the integer does not fit")
	}
	v.SetInt(int64(tok.bits))
	return nil
}

func decodeUint(d *decoder, v reflect.Value) error {
	tok, err := d.token()
	if err != nil {
		return typed(err, v.Type())
	}
	switch {
	case tok.class != classInt && tok.class != classUint:
		return fail(v.Type(), "found %s instead of an integer", tok)
	case tok.class == classInt && int64(tok.bits) < 0, v.OverflowUint(tok.bits):
		return fail(v.Type(), "the integer does not fit")
	}
	v.SetUint(tok.bits)
	return nil
}

func decodeFloat(d *decoder, v reflect.Value) error {
	tok, err := d.want(v.Type(), classFloat)
	if err != nil {
		return err
	}
	if tok.sub != int8(v.Type().Size()) {
		return fail(v.Type(), "found a float of %d bytes", tok.sub)
	}
	v.SetFloat(tok.float())
	return nil
}

func decodeComplex(d *decoder, v reflect.Value) error {
	tok, err := d.want(v.Type(), classExt)
	if err != nil {
		return err
	}
	if tok.sub != extComplex || tok.n != int(v.Type().Size()) {
		return fail(v.Type(), "found %s of %d bytes", tok, tok.n)
	}
	v.SetComplex(complexOf(d.take(tok.n)))
	return nil
}

// float returns the value of a classFloat token.
func (t token) float() float64 {
	if t.sub == 4 {
		return float64(math.Float32frombits(uint32(t.bits)))
	}
	return math.Float64frombits(t.bits)
}

// complexOf reads the 8 or 16 bytes of an extComplex.
func complexOf(b []byte) complex128 {
	if len(b) == 8 {
		return complex(float64(math.Float32frombits(binary.BigEndian.Uint32(b))),
			float64(math.Float32frombits(binary.BigEndian.Uint32(b[4:]))))
	}
	return complex(math.Float64frombits(binary.BigEndian.Uint64(b)),
		math.Float64frombits(binary.BigEndian.Uint64(b[8:])))
}
