package transport

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is the error of a connection or listener that this process has
	// closed.
	ErrClosed = errors.New("transport: closed")
	// ErrSilent ends a connection whose peer has sent nothing for
	// Options.HeartbeatTimeout.
	ErrSilent = errors.New("transport: peer is silent")
	// ErrProtocol ends a connection whose peer violates ZMTP.
	ErrProtocol = errors.New("transport: protocol violation")
	// ErrNoAnswer says that a listener was reached but did not complete the
	// handshake in time.
	ErrNoAnswer = errors.New("transport: no answer")
	// ErrAuth says that the peer could not prove that it belongs to this run.
	ErrAuth = errors.New("transport: peer is not of this run")
	// ErrUnknownOutcome says that a wait has ended while something was on its
	// way: it may still arrive, and be carried out, or not.
	ErrUnknownOutcome = errors.New("it is not known whether it was carried out")
)

// SizeError says that a message exceeds a connection's bounds. From Send and
// Post it means that no byte was sent and the connection goes on; from Recv,
// that the peer sent such a message and the connection has ended.
type SizeError struct {
	Size   int64 // of the message, as far as known
	Limit  int64 // the most it may be
	Frames bool  // Size and Limit count frames, not bytes
}

// Error returns one line.
func (e *SizeError) Error() string {
	unit := "bytes"
	if e.Frames {
		unit = "frames"
	}
	return fmt.Sprintf("transport: message of %d %s or more exceeds the limit of %d", e.Size, unit, e.Limit)
}
