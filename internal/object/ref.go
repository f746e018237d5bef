package object

import "github.com/fiber-go/fiber/internal/wire"

// Ref names an object in the run.
type Ref struct {
	Endpoint string // of its home
	Object   uint64
	Process  string // the home's name, for errors
	PID      int    // and its process id
}

// Append appends an encoded name to b.
func (ref Ref) Append(b []byte) []byte {
	b = wire.AppendString(b, ref.Endpoint)
	b = wire.AppendString(b, ref.Process)
	b = wire.AppendUvarint(b, uint64(ref.PID))
	return wire.AppendUvarint(b, ref.Object)
}

// Read decodes a name that Append has written at the beginning of b, and returns
// the rest of b.
func (ref *Ref) Read(b []byte) (more []byte, err error) {
	in := wire.Reader{B: b}
	ref.take(&in)
	return in.B, in.Err
}

func (ref *Ref) take(in *wire.Reader) {
	*ref = Ref{Endpoint: in.String(), Process: in.String(), PID: in.Int(), Object: in.Uvarint()}
}

// MarshalBinary encodes the name for the codec, as Append does.
func (ref Ref) MarshalBinary() ([]byte, error) { return ref.Append(nil), nil }

// UnmarshalBinary decodes what MarshalBinary has encoded.
func (ref *Ref) UnmarshalBinary(b []byte) error {
	more, err := ref.Read(b)
	if err == nil && len(more) > 0 {
		err = wire.ErrMalformed
	}
	return err
}
