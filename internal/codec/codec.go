// Package codec turns values into frames and back. The first frame is msgpack. Large slices of numbers
// follow as frames of their own, uncopied; smaller ones are raw little-endian bytes inside the first
// frame, so that a slice of numbers costs one memcpy instead of a call for each.
//
// Inside an any the type does not travel: integers come back in the narrowest type that holds them, structs
// as map[string]any, arrays and named slices of numbers as plain slices, and other slices as []any.
package codec

import "reflect"

// Marshal encodes v as frames. The first is msgpack; the others refer to the large slices of numbers in v,
// so v must not change until the frames are sent. Channels, funcs, interfaces with methods, values
// nested deeper than 1000 levels, cycles included, and structs with unexported fields that are not zero cannot be
// encoded: the error is an [*Error]. Such a field may be tagged "-", or be of one of sync's or sync/atomic's types. A type that
// has msgpack's methods, or encoding's binary or text methods, for both directions keeps that encoding; its
// EncodeMsgpack must write msgpack. A struct that embeds such a type, and has other exported fields, travels by
// its fields all the same. Marshal may be called concurrently.
func Marshal(v any) ([][]byte, error) {
	frames, _, err := MarshalListing(reflect.ValueOf(v), nil)
	return frames, err
}

// MarshalListing is Marshal of what v holds, and also returns a list: of all the values in v that
// have an encoding of their own, the pointers for which listed returns true, such
// as references to objects.
func MarshalListing(v reflect.Value, listed func(x any) bool) (frames [][]byte, list []any, err error) {
	frames, list, _, err = marshal(v, listed, false)
	return frames, list, err
}

// MarshalEach is MarshalListing of a slice whose elements fail alone: in place
// of one that cannot be encoded, nil travels, and failed has its error. failed is
// in the order of the elements.
func MarshalEach(v reflect.Value, listed func(x any) bool) (frames [][]byte, list []any, failed []*Error, err error) {
	return marshal(v, listed, true)
}

func marshal(v reflect.Value, listed func(x any) bool, each bool) (frames [][]byte, list []any, failed []*Error, err error) {
	e := getEncoder()
	defer e.put()
	e.listed, e.each = listed, each
	if err := e.any(v); err != nil {
		return nil, nil, nil, err
	}
	return e.result(), e.listing, e.failed, nil
}

// Unmarshal decodes frames into the value that ptr points to and replaces all of it. Large slices alias the
// frames, which then belong to the value. For bytes that Marshal did not write, Unmarshal returns an
// [*Error]; it does not panic, and takes no more memory than their length accounts for. After an error the
// value is undefined.
func Unmarshal(frames [][]byte, ptr any) error {
	_, err := UnmarshalListing(frames, ptr, nil)
	return err
}

// UnmarshalListing is Unmarshal and returns the same list as MarshalListing.
func UnmarshalListing(frames [][]byte, ptr any, listed func(x any) bool) (list []any, err error) {
	list, _, err = unmarshal(frames, ptr, listed, false)
	return list, err
}

// UnmarshalEach is UnmarshalListing into a slice whose elements fail alone: one
// that cannot be decoded is zero, and failed has its error. failed is in the
// order of the elements.
func UnmarshalEach(frames [][]byte, ptr any, listed func(x any) bool) (list []any, failed []*Error, err error) {
	return unmarshal(frames, ptr, listed, true)
}

func unmarshal(frames [][]byte, ptr any, listed func(x any) bool, each bool) (list []any, failed []*Error, err error) {
	v := reflect.ValueOf(ptr)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, nil, fail(reflect.TypeOf(ptr), "the target must be a non-nil pointer")
	}
	v = v.Elem()
	if len(frames) == 0 {
		return nil, nil, fail(v.Type(), "there are no frames")
	}
	d := getDecoder(frames)
	defer d.put()
	d.listed, d.each = listed, each
	v.SetZero()
	if err := planOf(v.Type()).decode(d, v); err != nil {
		return nil, nil, err
	}
	if bytes, frames := d.in.Len(), len(d.frames); bytes+frames > 0 {
		return nil, nil, fail(v.Type(), "there is more than the value: %d bytes, %d frames", bytes, frames)
	}
	return d.listing, d.failed, nil
}

// Size returns the number of bytes in frames.
func Size(frames [][]byte) int {
	n := 0
	for _, f := range frames {
		n += len(f)
	}
	return n
}
