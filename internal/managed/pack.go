package managed

import (
	"encoding/binary"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/wire"
)

// Pack appends to args what there is to say of values, and gives their frames:
// those of a single value as they are, and those of more joined to one, since
// a message has room for few frames and an object may hold many values.
func Pack(args []byte, values ...home.Value) ([]byte, [][]byte) {
	args = binary.AppendUvarint(args, uint64(len(values)))
	total := 0
	for _, v := range values {
		args = binary.AppendUvarint(args, uint64(len(v.Refs)))
		for _, ref := range v.Refs {
			args = wire.AppendString(args, ref.Endpoint)
			args = wire.AppendString(args, ref.Process)
			args = wire.AppendUvarint(args, uint64(ref.PID))
			args = binary.AppendUvarint(args, ref.Object)
		}
		if len(values) == 1 {
			return args, v.Frames
		}
		args = binary.AppendUvarint(args, uint64(len(v.Frames)))
		for _, f := range v.Frames {
			args = binary.AppendUvarint(args, uint64(len(f)))
			total += len(f)
		}
	}
	if len(values) == 0 {
		return args, nil
	}
	joined := make([]byte, 0, total)
	for _, v := range values {
		for _, f := range v.Frames {
			joined = append(joined, f...)
		}
	}
	return args, [][]byte{joined}
}

// Unpack reads what Pack has written.
func Unpack(args *wire.Reader, frames [][]byte) ([]home.Value, error) {
	n := args.Int()
	if args.Err != nil || n > len(args.B) || n > 0 && len(frames) == 0 || n > 1 && len(frames) > 1 {
		return nil, wire.ErrMalformed
	}
	values := make([]home.Value, n)
	var joined wire.Reader
	if n > 1 {
		joined.B = frames[0]
	}
	for i := range values {
		v := &values[i]
		refs := args.Int()
		if args.Err != nil || refs > len(args.B) {
			return nil, wire.ErrMalformed
		}
		for range refs {
			v.Refs = append(v.Refs, home.Ref{Endpoint: args.String(), Process: args.String(), PID: args.Int(), Object: args.Uvarint()})
		}
		if n == 1 {
			v.Frames = frames
			break
		}
		count := args.Int()
		if args.Err != nil || count < 1 || count > len(args.B) {
			return nil, wire.ErrMalformed
		}
		v.Frames = make([][]byte, count)
		for j := range v.Frames {
			v.Frames[j] = joined.Bytes(args.Int())
		}
	}
	if args.Err != nil || joined.Err != nil || len(joined.B) > 0 {
		return nil, wire.ErrMalformed
	}
	return values, nil
}
