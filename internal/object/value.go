package object

import (
	"bytes"
	"slices"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
)

// Value is an encoded value of the user's. The objects that it names live as
// long as it is kept. It is small, since queues and messages hold many.
type Value struct {
	First []byte // frame
	rest  *rest  // nil in most values
}

// rest holds the parts that few values have. It is not changed once it is part of one.
type rest struct {
	more [][]byte // frames
	refs []Ref
	keep any // see Value.Keeping
}

// more returns the frames behind the first.
func (v Value) more() [][]byte {
	if v.rest == nil {
		return nil
	}
	return v.rest.more
}

// Refs returns the names of the objects that the value names.
func (v Value) Refs() []Ref {
	if v.rest == nil {
		return nil
	}
	return v.rest.refs
}

// Keeping returns the value, which keeps something reachable: in its sender the
// objects that it names, in the receiver of an answer the answer that the value
// came in. That does not travel.
func (v Value) Keeping(keep any) Value {
	v.rest = &rest{v.more(), v.Refs(), keep}
	return v
}

// Append appends the packed value to b and frames.
func (v *Value) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	if v.First == nil {
		b = append(b, 0)
	} else {
		b, frames = wire.AppendPart(wire.AppendUvarint(b, uint64(1+len(v.more()))), frames, v.First)
		for _, f := range v.more() {
			b, frames = wire.AppendPart(b, frames, f)
		}
	}
	b = wire.AppendUvarint(b, uint64(len(v.Refs())))
	for _, ref := range v.Refs() {
		b = ref.Append(b)
	}
	return b, frames
}

// Read takes a packed value.
func (v *Value) Read(in *wire.Reader) {
	var more [][]byte
	var refs []Ref
	if n := in.Count(); n > 0 {
		v.First = in.Part()
		for i := 1; i < n && in.Err == nil; i++ {
			more = append(more, in.Part())
		}
	}
	for n := in.Count(); len(refs) < n && in.Err == nil; {
		var ref Ref
		ref.take(in)
		refs = append(refs, ref)
	}
	if len(more)+len(refs) > 0 {
		v.rest = &rest{more: more, refs: refs}
	}
}

// Unpack is Read, for the codec.
func (v *Value) Unpack(b []byte, frames [][]byte) ([]byte, [][]byte, error) {
	in := wire.Reader{B: b, Frames: frames}
	v.Read(&in)
	return in.B, in.Frames, in.Err
}

// Values are packed by hand, too.
type Values []Value

// Append appends the packed values to b and frames.
func (vs *Values) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	size := 0
	for i := range *vs {
		if size += 8; len((*vs)[i].First) < codec.FrameMin { // else it becomes a frame
			size += len((*vs)[i].First)
		}
	}
	b = wire.AppendUvarint(slices.Grow(b, min(size, maxBytes)), uint64(len(*vs)))
	for i := range *vs {
		b, frames = (*vs)[i].Append(b, frames)
	}
	return b, frames
}

// firstValues is for how many values there is room before they have been seen. In
// a message one may be two bytes.
const firstValues = 10_000

// Read takes packed values.
func (vs *Values) Read(in *wire.Reader) {
	n := in.Count()
	*vs = make([]Value, 0, min(n, firstValues))
	for len(*vs) < n && in.Err == nil {
		*vs = append(*vs, Value{})
		(*vs)[len(*vs)-1].Read(in)
	}
}

// Encoded returns the value of these frames, which names these objects.
func Encoded(frames [][]byte, refs ...Ref) Value {
	var v Value
	if len(frames) > 0 {
		v.First, frames = frames[0], frames[1:]
	}
	if len(frames)+len(refs) > 0 {
		v.rest = &rest{more: append([][]byte(nil), frames...), refs: refs}
	}
	return v
}

// Frames returns all frames, nil of the zero Value.
func (v Value) Frames() [][]byte { return v.AppendFrames(nil) }

// AppendFrames appends all frames.
func (v Value) AppendFrames(frames [][]byte) [][]byte {
	if v.First == nil {
		return frames
	}
	return append(append(frames, v.First), v.more()...)
}

// Size is about how many bytes the value takes in a message.
func (v Value) Size() int {
	n := 20 + len(v.First) + 4*len(v.more()) + codec.Size(v.more())
	for _, ref := range v.Refs() {
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
		for _, ref := range v.Refs() {
			do(ref)
		}
	}
}

// Private returns a copy, which shares no memory with the user's own values in
// this process.
func (v Value) Private() Value {
	v.First = bytes.Clone(v.First)
	return v.private()
}

// private is Private, but shares the first frame, which is seldom the user's.
func (v Value) private() Value {
	if v.rest != nil {
		r := rest{refs: v.rest.refs}
		for _, f := range v.rest.more {
			r.more = append(r.more, bytes.Clone(f))
		}
		v.rest = &r
	}
	return v
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
