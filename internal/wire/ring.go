package wire

import "encoding/binary"

// Member is a rank of a ring.
type Member struct {
	Rank      int
	Name      string // of its process
	Host      string
	PID       int
	Endpoint  string // where its left neighbour dials it, "" in a ring of one
	IP        string
	Interface string
	Port      int // a reserved TCP port, for the user's own use
}

// Members lists all ranks, in order.
type Members struct{ All []Member }

// Broken says that a ring has failed.
type Broken struct {
	Rank int // the rank that failed, -1 if none did and the ring is not wanted any more
	Err  *Error
}

// Meet is a rank's first message to its right neighbour.
type Meet struct {
	Ring     string
	Rank     int
	Messages bool // the connection is for messages, not for collectives
}

// Collective says what a rank is about to do together with the others. Both ends
// of a connection must say the same.
type Collective struct {
	Serial uint64 // counts the node's collectives
	What   byte   // its kind
	Op     byte   // how numbers are combined
	Width  byte   // bytes of a number
	Big    bool   // big-endian numbers
	Root   int
	Len    int // number of numbers
}

// MaxCollective bounds the bytes of a packed Collective.
const MaxCollective = 5 + 3*binary.MaxVarintLen64

// Pack makes the message.
func (c *Collective) Pack() []byte {
	b := make([]byte, 0, MaxCollective)
	big := byte(0)
	if c.Big {
		big = 1
	}
	b = append(b, byte(KindCollective), c.What, c.Op, c.Width, big)
	b = binary.AppendUvarint(b, c.Serial)
	b = binary.AppendUvarint(b, uint64(c.Root))
	return binary.AppendUvarint(b, uint64(c.Len))
}

// Unpack decodes the message.
func (c *Collective) Unpack(b []byte) error {
	if len(b) < 5 || Kind(b[0]) != KindCollective {
		return ErrMalformed
	}
	c.What, c.Op, c.Width, c.Big = b[1], b[2], b[3], b[4] != 0
	r := Reader{B: b[5:]}
	c.Serial, c.Root, c.Len = r.Uvarint(), r.Int(), r.Int()
	return r.Err
}
