package object

import (
	"bytes"
	"slices"

	"github.com/fiber-go/fiber/internal/codec"
)

// Value is an encoded value of the user's. The objects that it names live as
// long as it is kept.
type Value struct {
	_     struct{} `msgpack:",as_array"`
	First []byte   // frame
	More  [][]byte // frames, nil in most values
	Refs  []Ref
	// Keep is reachable as long as the value is, and does not travel. In the
	// sender it holds the objects in Refs; in the receiver of an answer it is the
	// answer that the value came in.
	Keep any `msgpack:"-"`
}

// Encoded returns the value of these frames, which names these objects.
func Encoded(frames [][]byte, refs ...Ref) Value {
	v := Value{Refs: refs}
	if len(frames) > 0 {
		v.First, v.More = frames[0], append(v.More, frames[1:]...)
	}
	return v
}

// Frames returns all frames, nil of the zero Value.
func (v Value) Frames() [][]byte {
	if v.First == nil {
		return nil
	}
	return append([][]byte{v.First}, v.More...)
}

// Size is about how many bytes the value takes in a message.
func (v Value) Size() int {
	n := 20 + len(v.First) + 4*len(v.More) + codec.Size(v.More)
	for _, ref := range v.Refs {
		n += 48 + len(ref.Endpoint) + len(ref.Process)
	}
	return n
}

// Equal says whether two values are the same bytes.
func (v Value) Equal(w Value) bool { return slices.EqualFunc(v.Frames(), w.Frames(), bytes.Equal) }

// HoldRefs holds the objects that values name.
func (s *Server) HoldRefs(values ...Value) { eachRef(values, s.Hold) }

// ReleaseRefs releases what HoldRefs has held.
func (s *Server) ReleaseRefs(values ...Value) { eachRef(values, s.Release) }

func eachRef(values []Value, do func(Ref)) {
	for _, v := range values {
		for _, ref := range v.Refs {
			do(ref)
		}
	}
}

// Private returns a copy, which shares no memory with the user's own values in
// this process.
func (v Value) Private() Value {
	return Value{First: bytes.Clone(v.First), More: owned(v.More), Refs: v.Refs}
}

// owned returns copies of frames.
func owned(frames [][]byte) (copies [][]byte) {
	for _, f := range frames {
		copies = append(copies, bytes.Clone(f))
	}
	return copies
}

// maxBytes bounds several values that go into one message, and overhead is the
// room in a message for everything but its values.
const (
	maxBytes = 1 << 20
	overhead = 1 << 10
)

// Fitting returns how many of the values go into one message: at least one, and
// as many as stay within maxBytes and max_message.
func (s *Server) Fitting(values []Value) int {
	bytes, most := 0, min(maxBytes, int(s.opts.MaxMessage)-overhead)
	for i, v := range values {
		if bytes += v.Size(); i > 0 && bytes > most {
			return i
		}
	}
	return len(values)
}

// Shift removes and returns the first n values.
func Shift(values *[]Value, n int) []Value {
	first := slices.Clone((*values)[:n])
	clear((*values)[:n])
	if *values = (*values)[n:]; len(*values) == 0 {
		*values = nil // frees the array
	}
	return first
}
