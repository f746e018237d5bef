package object

import (
	"github.com/fiber-go/fiber/internal/wire"
)

// Value is an encoded value of the user's. The objects that it names live as
// long as it is kept.
type Value struct {
	Frames [][]byte
	Refs   []Ref
	// Keep is reachable as long as the value is, and does not travel. In the
	// sender it holds the objects in Refs; in the receiver of an answer it is the
	// answer that the value came in.
	Keep any
}

// Size is about how many bytes the value takes in a message.
func (v Value) Size() int {
	n := 16
	for _, f := range v.Frames {
		n += 4 + len(f)
	}
	for _, ref := range v.Refs {
		n += 24 + len(ref.Endpoint) + len(ref.Process)
	}
	return n
}

// HoldRefs holds the objects that v names.
func (s *Server) HoldRefs(v Value) {
	for _, ref := range v.Refs {
		s.Hold(ref)
	}
}

// ReleaseRefs releases what HoldRefs has held.
func (s *Server) ReleaseRefs(v Value) {
	for _, ref := range v.Refs {
		s.Release(ref)
	}
}

// Private copies those frames of a value that may be parts of the user's own
// values in this process.
func (v Value) Private() Value {
	frames := append(make([][]byte, 0, len(v.Frames)), v.Frames...)
	return Value{Frames: owned(frames), Refs: v.Refs}
}

// The bounds of several values that go into one message.
const (
	MaxFrames = 300
	MaxBytes  = 1 << 20
)

// overhead is the room in a message for everything but its values, in bytes.
const overhead = 1 << 10

// Fitting returns how many of the values go into one message, at least one, if
// max_message is not below MaxBytes.
func Fitting(values []Value) int { return fitting(values, MaxBytes) }

// Fitting returns how many of the values go into one message, at least one,
// within max_message.
func (s *Server) Fitting(values []Value) int {
	return fitting(values, min(MaxBytes, int(s.opts.MaxMessage)-overhead))
}

func fitting(values []Value, most int) int {
	frames, bytes := 0, 0
	for i, v := range values {
		frames += len(v.Frames)
		bytes += v.Size()
		if i > 0 && (frames-i > MaxFrames || bytes > most) {
			return i
		}
	}
	return len(values)
}

// PackValues appends a description of values to args, and returns their frames.
// A single value keeps its frames. Of several values the first frames are
// joined, since most are small and a message has room for few frames. The other
// frames are joined, too, if there are more than MaxFrames.
func PackValues(args []byte, values ...Value) ([]byte, [][]byte) {
	args = wire.AppendUvarint(args, uint64(len(values)))
	total, firsts, others := 0, 0, 0
	for _, v := range values {
		args = wire.AppendUvarint(args, uint64(len(v.Frames[0])))
		args = wire.AppendUvarint(args, uint64(len(v.Frames)-1))
		for _, f := range v.Frames[1:] {
			args = wire.AppendUvarint(args, uint64(len(f)))
			total += len(f)
		}
		args = wire.AppendUvarint(args, uint64(len(v.Refs)))
		for _, ref := range v.Refs {
			args = ref.append(args)
		}
		firsts += len(v.Frames[0])
		others += len(v.Frames) - 1
	}
	switch {
	case len(values) == 0:
		return args, nil
	case len(values) == 1:
		return args, values[0].Frames
	}
	joinsAll := others > MaxFrames
	if joinsAll {
		firsts, others = firsts+total, 0
	}
	frames := make([][]byte, 1, 1+others)
	joined := make([]byte, 0, firsts)
	for _, v := range values {
		joined = append(joined, v.Frames[0]...)
		for _, f := range v.Frames[1:] {
			if joinsAll {
				joined = append(joined, f...)
			} else {
				frames = append(frames, f)
			}
		}
	}
	frames[0] = joined
	return args, frames
}

// UnpackValues decodes what PackValues has written.
func UnpackValues(args *wire.Reader, frames [][]byte) ([]Value, error) {
	n := args.Int()
	if args.Err != nil || n > len(args.B)/3 || n > 0 && len(frames) == 0 { // three numbers each
		return nil, wire.ErrMalformed
	}
	var joined wire.Reader
	if n > 0 {
		joined.B, frames = frames[0], frames[1:]
	}
	joinsAll := len(frames) == 0
	values := make([]Value, n)
	for i := range values {
		v := &values[i]
		size, others := args.Int(), args.Int()
		if args.Err != nil || others > len(args.B) {
			return nil, wire.ErrMalformed
		}
		v.Frames = make([][]byte, 1, 1+others)
		v.Frames[0] = joined.Bytes(size)
		for range others {
			var f []byte
			switch size := args.Int(); {
			case joinsAll:
				f = joined.Bytes(size)
			case len(frames) > 0 && len(frames[0]) == size:
				f, frames = frames[0], frames[1:]
			default:
				return nil, wire.ErrMalformed
			}
			v.Frames = append(v.Frames, f)
		}
		refs := args.Int()
		if args.Err != nil || refs > len(args.B) {
			return nil, wire.ErrMalformed
		}
		for range refs {
			v.Refs = append(v.Refs, readRef(args))
		}
	}
	if args.Err != nil || joined.Err != nil || len(joined.B) > 0 || len(frames) > 0 {
		return nil, wire.ErrMalformed
	}
	return values, nil
}
