package wire

import "encoding/binary"

// Tunnel is a message of one process of a run to any other one, passed on
// along the tree: about a connection between them that neither could dial.
type Tunnel struct {
	To, From string // places in the tree
	ID       uint64 // of the connection, in the process that wanted it
	Step     Step
	Opener   bool   // it is sent by the process that wanted the connection
	N        uint64 // of a grant: bytes
	Target   string // of an open: the endpoint that is wanted
	Back     string // of an open: where the process is found that wants it, "" when nowhere
}

// Step is what a Tunnel message is about.
type Step byte

// The steps.
const (
	TunnelOpen  Step = iota // connect me to one of your endpoints
	TunnelBack              // done: dialled from the other side
	TunnelData              // bytes, which stand behind
	TunnelGrant             // so many more bytes may be sent
	TunnelClose             // the end of the connection
)

// Pack makes the message.
func (t *Tunnel) Pack(data ...[]byte) [][]byte {
	head := append(make([]byte, 0, 64+len(t.Target)+len(t.Back)), byte(KindTunnel), byte(t.Step), 0)
	if t.Opener {
		head[2] = 1
	}
	head = binary.AppendUvarint(head, t.ID)
	head = binary.AppendUvarint(head, t.N)
	for _, s := range []string{t.To, t.From, t.Target, t.Back} {
		head = AppendString(head, s)
	}
	return message(head, data)
}

// Unpack reads the message; the data is frames[1:].
func (t *Tunnel) Unpack(frames [][]byte) error {
	if KindOf(frames) != KindTunnel || len(frames[0]) < 3 {
		return ErrMalformed
	}
	t.Step, t.Opener = Step(frames[0][1]), frames[0][2] == 1
	in := Reader{B: frames[0][3:]}
	t.ID, t.N = in.Uvarint(), in.Uvarint()
	t.To, t.From, t.Target, t.Back = in.String(), in.String(), in.String(), in.String()
	return in.Err
}

// Back is the first message on a connection that was dialled from the side
// that it was wanted to.
type Back struct{ ID uint64 }
