package wire

// Member is a rank of a ring.
type Member struct {
	Rank      int
	Name      string // of its process
	Host      string
	PID       int
	Endpoint  string // where its left neighbour dials it
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
