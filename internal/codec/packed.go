package codec

import "reflect"

// Packed is implemented by a pointer to a type of Fiber's own of which a message
// may have many. It is written and read by hand, since reflection takes longer.
type Packed interface {
	// Append appends the value to bytes, or to frames what should not be copied.
	Append(b []byte, frames [][]byte) ([]byte, [][]byte)
	// Unpack reads the value from the beginning of both, and returns what is left.
	// It takes at least a byte.
	Unpack(b []byte, frames [][]byte) ([]byte, [][]byte, error)
}

var packedType = reflect.TypeFor[Packed]()

func packedPlan(t reflect.Type) plan {
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			var b []byte
			b, e.frames = addressable(v).Addr().Interface().(Packed).Append(e.buf.AvailableBuffer(), e.frames)
			e.buf.Write(b)
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			n := d.in.Len()
			b, frames, err := v.Addr().Interface().(Packed).Unpack(d.buf[len(d.buf)-n:], d.frames)
			if err != nil {
				return own(t, err)
			}
			d.take(n - len(b))
			d.frames = frames
			return nil
		},
	}
}
