package wire

import "time"

// Output is a piece of a program's output, whose bytes are the message's value. Positions count the bytes of the output.
type Output struct {
	At   int64         // the position of the first byte
	Away time.Duration // how long nobody has read, if bytes before this piece are missing
	Last bool          // the output ends here, which counts as one byte
}

// Reading tells an init how far its program's output has been read.
type Reading struct {
	From   int64 // the first byte that is wanted; counts in the first message of a connection
	Passed int64 // all bytes before this one have been passed on
}
