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
	frames, _, err := marshal(v, nil)
	return frames, err
}

// MarshalListing is Marshal, and lists those pointers to values in v with a binary
// encoding of their own that listed is true for: what has the name of an object, say.
func MarshalListing(v any, listed func(x any) bool) (frames [][]byte, list []any, err error) {
	return marshal(v, listed)
}

func marshal(v any, listed func(any) bool) (frames [][]byte, list []any, err error) {
	if v == nil {
		return [][]byte{{codeNil}}, nil, nil
	}
	p, value := planOf(reflect.TypeOf(v)), reflect.ValueOf(v)
	if !p.foreign {
		return p.marshal(value, listed, false)
	}
	return p.marshalApart(value, listed)
}

func (p *plan) marshalApart(v reflect.Value, listed func(any) bool) (frames [][]byte, list []any, err error) {
	err = apartly(func(own apart) (err error) {
		frames, list, err = p.marshal(v, listed, own)
		return err
	})
	return frames, list, err
}

func (p *plan) marshal(v reflect.Value, listed func(any) bool, own apart) (frames [][]byte, list []any, err error) {
	e := getEncoder()
	defer e.put()
	e.own, e.listed = own, listed
	if err := p.encode(e, v); err != nil {
		return nil, nil, err
	}
	return e.result(), e.listing, nil
}

// Unmarshal decodes frames into the value that ptr points to, replacing all of it. Large slices alias the
// frames, which then belong to the value. Bytes that Marshal never wrote give an [*Error], not a panic, and
// take no more memory than their length accounts for; after an error the value is in no particular state.
func Unmarshal(frames [][]byte, ptr any) error {
	_, err := unmarshal(frames, ptr, nil)
	return err
}

// UnmarshalListing is Unmarshal, and lists what MarshalListing does.
func UnmarshalListing(frames [][]byte, ptr any, listed func(x any) bool) (list []any, err error) {
	return unmarshal(frames, ptr, listed)
}

func unmarshal(frames [][]byte, ptr any, listed func(any) bool) (list []any, err error) {
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
		return p.unmarshal(frames, v, listed, false)
	}
	return p.unmarshalApart(frames, v, listed)
}

func (p *plan) unmarshalApart(frames [][]byte, v reflect.Value, listed func(any) bool) (list []any, err error) {
	err = apartly(func(own apart) (err error) {
		list, err = p.unmarshal(frames, v, listed, own)
		return err
	})
	return list, err
}

func (p *plan) unmarshal(frames [][]byte, v reflect.Value, listed func(any) bool, own apart) ([]any, error) {
	d := getDecoder(frames)
	defer d.put()
	d.own, d.listed = own, listed
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
	return d.listing, nil
}

// Size is the number of bytes in frames.
func Size(frames [][]byte) int {
	n := 0
	for _, f := range frames {
		n += len(f)
	}
	return n
}
