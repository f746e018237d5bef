package home

import (
	"encoding/binary"

	"github.com/fiber-go/fiber/internal/wire"
)

// Value is an encoded value of a user's. The objects that are named in it live
// as long as it is kept.
type Value struct {
	Frames [][]byte
	Refs   []Ref
}

// Size is what a value weighs in a message.
func (v Value) Size() int {
	n := 16
	for _, f := range v.Frames {
		n += len(f)
	}
	for _, ref := range v.Refs {
		n += 24 + len(ref.Endpoint) + len(ref.Process)
	}
	return n
}

// HoldRefs holds the objects that are named in a value.
func (h *Home) HoldRefs(v Value) {
	for _, ref := range v.Refs {
		h.Hold(ref)
	}
}

// ReleaseRefs lets go of what HoldRefs holds.
func (h *Home) ReleaseRefs(v Value) {
	for _, ref := range v.Refs {
		h.Release(ref)
	}
}

// Private copies those frames of a value that may be parts of what somebody in
// this process has.
func (v Value) Private() Value {
	frames := append(make([][]byte, 0, len(v.Frames)), v.Frames...)
	return Value{owned(frames), v.Refs}
}

// The bounds of the values that go into one message.
const (
	MaxFrames = 300
	MaxBytes  = 1 << 20
)

// overhead is the room that a message needs beside its values.
const overhead = 1 << 10

// Fitting says how many of the values, one at least, go into one message, when
// messages are not bounded to less than MaxBytes.
func Fitting(values []Value) int { return fitting(values, MaxBytes) }

// Fitting is the same, with the bound that messages have.
func (h *Home) Fitting(values []Value) int {
	return fitting(values, min(MaxBytes, int(h.node.Config.MaxMessage)-overhead))
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

// PackValues appends to args what there is to say of values, and gives their
// frames: the first frames of all together in one, and the others.
func PackValues(args []byte, values ...Value) ([]byte, [][]byte) {
	args = binary.AppendUvarint(args, uint64(len(values)))
	total, others := 0, 0
	for _, v := range values {
		total += len(v.Frames[0])
		others += len(v.Frames) - 1
		args = binary.AppendUvarint(args, uint64(len(v.Frames[0])))
		args = binary.AppendUvarint(args, uint64(len(v.Frames)-1))
		args = binary.AppendUvarint(args, uint64(len(v.Refs)))
		for _, ref := range v.Refs {
			args = wire.AppendString(args, ref.Endpoint)
			args = wire.AppendString(args, ref.Process)
			args = binary.AppendUvarint(args, uint64(ref.PID))
			args = binary.AppendUvarint(args, ref.Object)
		}
	}
	if len(values) == 1 {
		return args, values[0].Frames
	}
	frames := make([][]byte, 1, 1+others)
	frames[0] = make([]byte, 0, total)
	for _, v := range values {
		frames[0] = append(frames[0], v.Frames[0]...)
		frames = append(frames, v.Frames[1:]...)
	}
	return args, frames
}

// UnpackValues reads what PackValues has written.
func UnpackValues(args *wire.Reader, frames [][]byte) ([]Value, error) {
	n := args.Int()
	if args.Err != nil || n > len(args.B)/3 || len(frames) == 0 { // three numbers each
		return nil, wire.ErrMalformed
	}
	first := wire.Reader{B: frames[0]}
	frames = frames[1:]
	values := make([]Value, n)
	for i := range values {
		v := &values[i]
		size, others, refs := args.Int(), args.Int(), args.Int()
		if args.Err != nil || others > len(frames) || refs > len(args.B) {
			return nil, wire.ErrMalformed
		}
		for range refs {
			v.Refs = append(v.Refs, Ref{Endpoint: args.String(), Process: args.String(), PID: args.Int(), Object: args.Uvarint()})
		}
		v.Frames = make([][]byte, 1+others)
		v.Frames[0] = first.Bytes(size)
		copy(v.Frames[1:], frames)
		frames = frames[others:]
	}
	if args.Err != nil || first.Err != nil || len(first.B) > 0 || len(frames) > 0 {
		return nil, wire.ErrMalformed
	}
	return values, nil
}
