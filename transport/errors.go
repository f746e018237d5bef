package transport

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is the end of a connection or listener that was closed here.
	ErrClosed = errors.New("transport: closed")
	// ErrSilent is the end of a connection whose peer was not heard for
	// Options.HeartbeatTimeout.
	ErrSilent = errors.New("transport: peer is silent")
	// ErrProtocol is the end of a connection whose peer does not keep to ZMTP.
	ErrProtocol = errors.New("transport: protocol violation")
	// ErrInterrupted is what Recv gives after Interrupt; the connection goes on.
	ErrInterrupted = errors.New("transport: receive interrupted")
	// ErrNoAnswer says that a listener was reached, which has not made itself
	// known in time.
	ErrNoAnswer = errors.New("transport: no answer")
	// ErrAuth says that the peer could not prove that it belongs to this run.
	ErrAuth = errors.New("transport: peer is not of this run")
)

// SizeError says that a message is beyond a connection's bounds. From Send and
// Post it means that no byte was sent and the connection is as before; from
// Recv, that the peer sent such a message and the connection is closed.
type SizeError struct {
	Size   int64 // what the message has, as far as known
	Limit  int64 // what it may have
	Frames bool  // Size and Limit count frames; else bytes
}

func (e *SizeError) Error() string {
	unit := "bytes"
	if e.Frames {
		unit = "frames"
	}
	return fmt.Sprintf("transport: message of %d %s or more exceeds the limit of %d", e.Size, unit, e.Limit)
}
