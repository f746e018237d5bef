package codec

import (
	"bytes"
	"encoding"
	"reflect"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// custom is one way in which a type can have an encoding of its own: a pair of
// interfaces that *T implements.
type custom struct {
	name             string
	encoder, decoder reflect.Type
	encode, decode   method
	write            func(e *encoder, t reflect.Type, b []byte) error
	read             func(d *decoder, t reflect.Type) ([]byte, error)
}

// customs are in msgpack's order of precedence.
var customs = []*custom{
	{
		"EncodeMsgpack", reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.CustomDecoder](),
		encodeMsgpack, decodeMsgpack, writeExtension, readExtension,
	},
	{
		"MarshalMsgpack", reflect.TypeFor[msgpack.Marshaler](), reflect.TypeFor[msgpack.Unmarshaler](),
		func(x any, _ []byte) ([]byte, error) { return x.(msgpack.Marshaler).MarshalMsgpack() },
		func(x any, b []byte) ([]byte, error) { return nil, x.(msgpack.Unmarshaler).UnmarshalMsgpack(b) },
		writeExtension, readExtension,
	},
	{
		"MarshalBinary", reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
		func(x any, _ []byte) ([]byte, error) { return x.(encoding.BinaryMarshaler).MarshalBinary() },
		func(x any, b []byte) ([]byte, error) { return nil, x.(encoding.BinaryUnmarshaler).UnmarshalBinary(b) },
		writeBytes, readBytes,
	},
	{
		"MarshalText", reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
		func(x any, _ []byte) ([]byte, error) { return x.(encoding.TextMarshaler).MarshalText() },
		func(x any, b []byte) ([]byte, error) { return nil, x.(encoding.TextUnmarshaler).UnmarshalText(b) },
		writeText, readText,
	},
}

// customOf returns the encoding of its own that t has, or nil. For a pointer it
// returns nil: its element is encoded instead.
func customOf(t reflect.Type) *custom {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return nil
	}
	for _, c := range customs {
		if c.of(t) && c.inherited(t) == nil {
			return c
		}
	}
	return nil
}

// of reports whether t has this encoding, by its own methods or by embedding another type.
func (c *custom) of(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(c.encoder) && p.Implements(c.decoder)
}

// inherited returns the type that t embeds and may have this encoding from, which would lose t's other
// fields. Reflection cannot tell such an encoding from one that t declares: t travels by its fields if
// there are others that can. If there are none, inherited returns nil.
func (c *custom) inherited(t reflect.Type) reflect.Type {
	if t.Kind() != reflect.Struct || !c.of(t) {
		return nil
	}
	source := func(f reflect.StructField) bool {
		return f.Anonymous && f.IsExported() && (f.Type.Implements(c.encoder) || reflect.PointerTo(f.Type).Implements(c.encoder))
	}
	if !slices.ContainsFunc(fieldsOf(t), func(f field) bool { return !source(t.Field(f.index)) }) {
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); source(f) {
			return f.Type
		}
	}
	return nil
}

// plan encodes and decodes values of type t by their own methods.
func (c *custom) plan(t reflect.Type) plan {
	return nested(t, 0, plan{
		encode: func(e *encoder, v reflect.Value) error {
			x := addressable(v).Addr().Interface()
			b, err := e.call(c.encode, x, nil)
			if err != nil {
				return own(t, err)
			}
			if e.listed != nil && e.listed(x) {
				e.listing = append(e.listing, x)
			}
			return c.write(e, t, b)
		},
		decode: func(d *decoder, v reflect.Value) error {
			b, err := c.read(d, t)
			if err != nil {
				return err
			}
			x := v.Addr().Interface()
			if _, err := d.call(c.decode, x, b); err != nil {
				return own(t, err)
			}
			if d.listed != nil && d.listed(x) {
				d.listing = append(d.listing, x)
			}
			return nil
		},
	})
}

// own returns the error of a method of type t as an *Error.
func own(t reflect.Type, err error) error {
	if err, ok := err.(*Error); ok { // a copy: it may be the method's own, and its path is about to change
		e := *err
		e.Index = -1
		return typed(&e, t)
	}
	return &Error{Type: t.String(), Reason: err.Error(), Index: -1, Err: err}
}

func encodeMsgpack(x any, _ []byte) ([]byte, error) {
	var b bytes.Buffer
	err := x.(msgpack.CustomEncoder).EncodeMsgpack(msgpack.NewEncoder(&b))
	return b.Bytes(), err
}

func decodeMsgpack(x any, b []byte) ([]byte, error) {
	look := getDecoder([][]byte{b})
	defer look.put()
	for look.in.Len() > 0 { // a msgpack.Decoder trusts what it reads
		if err := look.skip(); err != nil {
			return nil, err
		}
	}
	r := bytes.NewReader(b)
	if err := x.(msgpack.CustomDecoder).DecodeMsgpack(msgpack.NewDecoder(r)); err != nil {
		return nil, err
	}
	if r.Len() > 0 {
		return nil, fail(nil, "DecodeMsgpack left %d bytes", r.Len())
	}
	return nil, nil
}

func writeExtension(e *encoder, t reflect.Type, b []byte) error {
	return e.extension(t, extCustom, b)
}

func readExtension(d *decoder, t reflect.Type) ([]byte, error) {
	return d.content(t, extCustom)
}

func writeBytes(e *encoder, t reflect.Type, b []byte) error { return e.numbers(t, bytesRun, b) }

func readBytes(d *decoder, t reflect.Type) ([]byte, error) {
	b, _, err := d.numbers(t, bytesRun)
	return b, err
}

func writeText(e *encoder, t reflect.Type, b []byte) error {
	if err := fits(t, len(b)); err != nil {
		return err
	}
	return e.EncodeString(string(b))
}

func readText(d *decoder, t reflect.Type) ([]byte, error) { return d.text(t, classString) }
