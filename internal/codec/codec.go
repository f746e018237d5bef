// Package codec turns values into frames and back. The first frame is msgpack; large slices of numbers
// follow as frames of their own, by reference and uncopied. Smaller ones lie inside the first frame as raw
// little-endian bytes, so that numbers cost a memcpy and not a call each.
//
// Inside an any, integers come back in the narrowest type that holds them, structs as map[string]any, other
// slices as []any and arrays and named slices of numbers as plain slices, because the type does not travel.
package codec

import (
	"reflect"
)

// Marshal encodes v as frames: the first is msgpack, the others are the large slices of numbers in v, by
// reference: v is not to change until the frames are sent. What cannot be encoded is an [*Error]. Channels,
// funcs, and interfaces with methods cannot; neither can anything nested deeper than 1000 levels, a cycle
// included. Types with msgpack's, encoding's binary or its text methods, for both directions, keep their own
// encoding; what their EncodeMsgpack writes has to be msgpack. Concurrent calls are fine.
func Marshal(v any) ([][]byte, error) {
	frames, _, err := marshal(v, false)
	return frames, err
}

// MarshalOwn is Marshal, and returns pointers to the values in v that have a
// binary encoding of their own: a queue's name, say.
func MarshalOwn(v any) (frames [][]byte, own []any, err error) { return marshal(v, true) }

func marshal(v any, list bool) (frames [][]byte, binaries []any, err error) {
	if v == nil {
		return [][]byte{{codeNil}}, nil, nil
	}
	p, value := planOf(reflect.TypeOf(v)), reflect.ValueOf(v)
	if !p.foreign {
		return p.marshal(value, list, false)
	}
	return p.marshalApart(value, list)
}

func (p *plan) marshalApart(v reflect.Value, list bool) (frames [][]byte, binaries []any, err error) {
	err = apartly(func(own apart) (err error) {
		frames, binaries, err = p.marshal(v, list, own)
		return err
	})
	return frames, binaries, err
}

func (p *plan) marshal(v reflect.Value, list bool, own apart) (frames [][]byte, binaries []any, err error) {
	e := getEncoder()
	defer e.put()
	e.own, e.list = own, list
	if err := p.encode(e, v); err != nil {
		return nil, nil, err
	}
	return e.result(), e.binaries, nil
}

// Unmarshal decodes frames into the value that ptr points to, replacing all of it. Large slices alias the
// frames, which then belong to the value. Bytes that Marshal never wrote give an [*Error], not a panic, and
// take no more memory than their length accounts for; after an error the value is in no particular state.
func Unmarshal(frames [][]byte, ptr any) error {
	_, err := unmarshal(frames, ptr, false)
	return err
}

// UnmarshalOwn is Unmarshal, and returns pointers as MarshalOwn does.
func UnmarshalOwn(frames [][]byte, ptr any) (own []any, err error) {
	return unmarshal(frames, ptr, true)
}

func unmarshal(frames [][]byte, ptr any, list bool) (binaries []any, err error) {
	v := reflect.ValueOf(ptr)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, fail(reflect.TypeOf(ptr), "values are decoded into a pointer that is not nil")
	}
	if len(frames) == 0 {
		return nil, fail(v.Type().Elem(), "there are no frames")
	}
	v = v.Elem()
	p := planOf(v.Type())
	if !p.foreign {
		return p.unmarshal(frames, v, list, false)
	}
	return p.unmarshalApart(frames, v, list)
}

func (p *plan) unmarshalApart(frames [][]byte, v reflect.Value, list bool) (binaries []any, err error) {
	err = apartly(func(own apart) (err error) {
		binaries, err = p.unmarshal(frames, v, list, own)
		return err
	})
	return binaries, err
}

func (p *plan) unmarshal(frames [][]byte, v reflect.Value, list bool, own apart) ([]any, error) {
	d := getDecoder(frames)
	defer d.put()
	d.own, d.listing = own, list
	v.SetZero()
	if err := p.decode(d, v); err != nil {
		return nil, err
	}
	if n := d.left(); n > 0 {
		return nil, fail(v.Type(), "%d bytes too many", n)
	}
	if n := len(d.frames); n > 0 {
		return nil, fail(v.Type(), "%d frames too many", n)
	}
	return d.binaries, nil
}

// Size is the number of bytes in frames.
func Size(frames [][]byte) int {
	n := 0
	for _, f := range frames {
		n += len(f)
	}
	return n
}
