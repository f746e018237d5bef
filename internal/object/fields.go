package object

import (
	"reflect"

	"github.com/fiber-go/fiber/internal/wire"
)

// Frames is a value of the user's that stands alone and names no objects. It is
// neither packed nor copied.
type Frames [][]byte

// pack encodes what x points to: an int, a uint64, a bool, a string, or a struct
// of such. Values may follow them, where the last field may be a slice; or Frames.
func pack(x any) (args []byte, frames [][]byte) {
	p := packer{args: make([]byte, 0, 32)}
	p.add(reflect.ValueOf(x).Elem())
	if p.some {
		return PackValues(p.args, p.values...)
	}
	return p.args, p.frames
}

type packer struct {
	args   []byte
	some   bool // x has a field for values
	values []Value
	frames Frames
}

func (p *packer) add(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *Value:
		p.some, p.values = true, append(p.values, *x)
		return
	case *[]Value:
		if p.some = true; p.values == nil {
			p.values = *x
		} else {
			p.values = append(p.values, *x...)
		}
		return
	case *Frames:
		p.frames = *x
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		p.args = wire.AppendUvarint(p.args, n)
	case reflect.Int:
		p.args = wire.AppendUvarint(p.args, uint64(v.Int()))
	case reflect.Uint64:
		p.args = wire.AppendUvarint(p.args, v.Uint())
	case reflect.String:
		p.args = wire.AppendString(p.args, v.String())
	case reflect.Struct:
		for i := range v.NumField() {
			p.add(v.Field(i))
		}
	default:
		panic("object: a " + v.Type().String() + " in a request or an answer")
	}
}

// unpackAnswer is unpack for an answer, which counts as taken when its values
// are no longer in use: see client.took.
func unpackAnswer(args []byte, frames [][]byte, x any) error {
	return (&unpacker{in: wire.Reader{B: args}, frames: frames, answer: true}).unpack(x)
}

// unpack decodes what pack has written into what x points to.
func unpack(args []byte, frames [][]byte, x any) error {
	return (&unpacker{in: wire.Reader{B: args}, frames: frames}).unpack(x)
}

type unpacker struct {
	in     wire.Reader
	frames [][]byte
	answer bool
	some   bool    // the values have been read
	values []Value // those that are not in their fields yet
}

func (u *unpacker) unpack(x any) error {
	u.read(reflect.ValueOf(x).Elem())
	if u.in.Err == nil && (len(u.in.B) > 0 || len(u.values) > 0) {
		return wire.ErrMalformed
	}
	return u.in.Err
}

func (u *unpacker) read(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *Value:
		if u.readValues(); len(u.values) == 0 {
			u.in.Err = wire.ErrMalformed
			return
		}
		*x, u.values = u.values[0], u.values[1:]
		return
	case *[]Value:
		u.readValues()
		*x, u.values = u.values, nil
		return
	case *Frames:
		*x = u.frames
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(u.in.Uvarint() == 1)
	case reflect.Int:
		v.SetInt(int64(u.in.Int()))
	case reflect.Uint64:
		v.SetUint(u.in.Uvarint())
	case reflect.String:
		v.SetString(u.in.String())
	case reflect.Struct:
		for i := range v.NumField() {
			u.read(v.Field(i))
		}
	}
}

func (u *unpacker) readValues() {
	if u.some {
		return
	}
	u.some = true
	values, err := UnpackValues(&u.in, u.frames)
	if err != nil {
		u.in.Err = err
	}
	for i := range values {
		if u.answer && len(values[i].Refs) > 0 {
			values[i].Keep = u.frames
		}
	}
	u.values = values
}
