package transport

import (
	"fmt"
	"io"
)

// RecvInto is Recv for a message of one frame, read into memory of the
// caller's: the first n bytes of buf are the message. One of more frames, or of
// more than len(buf) bytes, is a *SizeError, which ends the connection. One
// goroutine at a time may call Recv and RecvInto.
func (c *Conn) RecvInto(buf []byte) (n int, err error) {
	n, err = c.r.message(buf)
	if err == nil || err == ErrInterrupted {
		return n, err
	}
	err = c.readError(err)
	c.finish(err)
	return 0, err
}

// message reads a message of one frame without the codec, which would take
// memory for it.
func (r *reader) message(p []byte) (n int, err error) {
	if r.err != nil {
		return 0, r.err
	}
	if len(r.header) > 0 || r.payload > 0 || r.inside {
		return 0, fmt.Errorf("%w: a read in the middle of a message", ErrProtocol)
	}
	if err := r.next(); err != nil {
		if err != ErrInterrupted { // that one passes
			r.err = err
		}
		return 0, err
	}
	r.header = nil
	switch {
	case r.inside:
		r.err = &SizeError{Size: 2, Limit: 1, Frames: true}
	case r.payload > uint64(len(p)):
		r.err = &SizeError{Size: int64(r.payload), Limit: int64(len(p))}
	}
	for r.err == nil && r.payload > 0 {
		var m int
		m, r.err = r.body(p[n : n+int(r.payload)])
		n += m
		r.payload -= uint64(m)
		if r.err == io.EOF {
			r.err = io.ErrUnexpectedEOF
		}
	}
	return n, r.err
}
