package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	greetingSize = 64
	maxCommand   = 4 << 10 // bytes in a command: READY, PING, PONG
	minBuffer    = 4 << 10
	maxBuffer    = 64 << 10
)

// The flags of a ZMTP frame.
const (
	flagMore    = 1 << iota // another frame of the same message follows
	flagLong                // the size has eight bytes
	flagCommand             // the frame is a command
)

// reader reads the frames of a ZMTP stream. It checks a size before it
// allocates memory for it, and passes commands that come after the handshake to
// command.
type reader struct {
	nc      net.Conn
	command func(body []byte) error
	max     atomic.Int64 // bytes in a message
	frames  int          // frames in a message

	buf    []byte // starts small, grows when reads fill it
	lo, hi int    // buf[lo:hi] is unread

	payload uint64 // bytes of the current frame still to be handed out
	inside  bool   // more frames of the current message follow
	size    int64  // of the current message so far
	count   int    // its frames so far

	err error // what ended the stream

	cut          atomic.Bool  // the socket is being closed: reads may have gaps
	waiting      atomic.Bool  // a read is blocked in the socket
	heard        atomic.Bool  // something was read since the last heartbeat
	interrupting sync.Mutex   // the deadline and interrupts, which belong together
	interrupts   bool         // the deadline is to interrupt a read
	fresh        *atomic.Bool // the writer's
}

func newReader(nc net.Conn, fresh *atomic.Bool, command func([]byte) error) *reader {
	r := &reader{nc: nc, command: command, fresh: fresh, frames: 1, payload: greetingSize}
	r.max.Store(maxCommand)
	r.buf = make([]byte, minBuffer)
	return r
}

// Read returns the greeting and then the frames of the handshake, for the
// codec. It never returns bytes of two frames at once.
func (r *reader) Read(p []byte) (n int, err error) {
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	if r.payload == 0 {
		flags, size, head, err := r.peek()
		if err == nil {
			err = r.admit(flags, size)
		}
		if err != nil {
			r.err = err
			return 0, err
		}
		r.payload = uint64(head) + size
	}
	return r.body(p)
}

// message reads the next message, into fresh memory or, unless into is nil, a
// message of one frame into that.
func (r *reader) message(into []byte) (frames [][]byte, err error) {
	if r.err != nil {
		return nil, r.err
	}
	for first := true; first || r.inside; first = false {
		size, err := r.next()
		if err == ErrInterrupted { // this error does not last
			return nil, err
		}
		frame := into
		switch {
		case err != nil:
		case into == nil:
			frame = make([]byte, size)
		case r.inside:
			err = &SizeError{Size: 2, Limit: 1, Frames: true}
		case size > uint64(len(into)):
			err = &SizeError{Size: int64(size), Limit: int64(len(into))}
		default:
			frame = into[:size]
		}
		if err != nil {
			r.err = err
			return nil, err
		}
		r.payload = size
		for rest := frame; r.payload > 0; {
			n, err := r.body(rest)
			if rest = rest[n:]; err != nil {
				return nil, err
			}
		}
		frames = append(frames, frame)
	}
	return frames, nil
}

// between reports whether the stream is between two messages.
func (r *reader) between() bool { return !r.inside && r.payload == 0 && r.lo == r.hi }

// next reads the header of a message's next frame, after handling the commands
// before it, and returns the frame's size.
func (r *reader) next() (size uint64, err error) {
	for {
		flags, size, n, err := r.peek()
		if err != nil {
			return 0, err
		}
		if flags&flagCommand != 0 {
			if err := r.swallow(flags, size, n); err != nil {
				return 0, err
			}
			continue
		}
		if err := r.admit(flags, size); err != nil {
			return 0, err
		}
		r.lo += n
		return size, nil
	}
}

// peek reads a header, of n bytes, and leaves it in the buffer.
func (r *reader) peek() (flags byte, size uint64, n int, err error) {
	if err = r.fill(2); err != nil {
		if err == io.EOF && (r.inside || r.lo < r.hi) {
			err = io.ErrUnexpectedEOF
		}
		return
	}
	flags = r.buf[r.lo]
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		err = fmt.Errorf("%w: frame with flags %#x", ErrProtocol, flags)
		return
	}
	if flags&flagLong == 0 {
		return flags, uint64(r.buf[r.lo+1]), 2, nil
	}
	if err = r.fill(9); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return
	}
	return flags, binary.BigEndian.Uint64(r.buf[r.lo+1:]), 9, nil
}

// admit checks a frame against the bounds of its message and counts it.
func (r *reader) admit(flags byte, size uint64) error {
	if !r.inside {
		r.size, r.count = 0, 0
	}
	r.count++
	if r.count > r.frames {
		return &SizeError{Size: int64(r.count), Limit: int64(r.frames), Frames: true}
	}
	limit := r.max.Load()
	if size > uint64(max(limit-r.size, 0)) {
		return &SizeError{Size: r.size + int64(min(size, 1<<62)), Limit: limit}
	}
	r.size += int64(size)
	r.inside = flags&flagMore != 0
	return nil
}

func (r *reader) swallow(flags byte, size uint64, n int) error {
	if size > maxCommand-9 || flags&flagMore != 0 {
		return fmt.Errorf("%w: command of %d bytes with flags %#x", ErrProtocol, size, flags)
	}
	if err := r.fill(n + int(size)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	body := r.buf[r.lo+n : r.lo+n+int(size)]
	r.lo += n + int(size)
	return r.command(body)
}

// body reads bytes of the current frame, from the buffer or, if p is large,
// straight from the socket. An error lasts.
func (r *reader) body(p []byte) (n int, err error) {
	p = p[:min(uint64(len(p)), r.payload)]
	switch {
	case r.lo < r.hi:
	case len(p) >= len(r.buf):
		n, err = r.read(p)
	default:
		err = r.fill(1)
	}
	if n == 0 && err == nil {
		n = copy(p, r.buf[r.lo:r.hi])
		r.lo += n
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	r.payload -= uint64(n)
	r.err = err
	return n, err
}

// fill reads until n bytes, at most minBuffer, are in the buffer.
func (r *reader) fill(n int) error {
	for r.hi-r.lo < n {
		switch {
		case r.lo == r.hi:
			if r.hi == len(r.buf) && len(r.buf) < maxBuffer {
				r.buf = make([]byte, 2*len(r.buf))
			}
			r.lo, r.hi = 0, 0
		case r.lo+n > len(r.buf):
			r.hi = copy(r.buf, r.buf[r.lo:r.hi])
			r.lo = 0
		}
		m, err := r.read(r.buf[r.hi:])
		r.hi += m
		if err != nil {
			return err
		}
	}
	return nil
}

// interrupt ends a waiting read, or the next one, by a deadline in the past;
// see interrupted.
func (r *reader) interrupt() {
	r.interrupting.Lock()
	defer r.interrupting.Unlock()
	r.interrupts = true
	_ = r.nc.SetReadDeadline(time.Unix(1, 0))
}

// interrupted reports whether a deadline that passed was an interrupt, and
// removes that deadline.
func (r *reader) interrupted() bool {
	r.interrupting.Lock()
	defer r.interrupting.Unlock()
	if !r.interrupts {
		return false
	}
	r.interrupts = false
	_ = r.nc.SetReadDeadline(time.Time{})
	return true
}

// read reads from the socket. It returns either bytes or an error.
func (r *reader) read(p []byte) (int, error) {
	r.waiting.Store(true)
	n, err := r.nc.Read(p)
	for errors.Is(err, os.ErrDeadlineExceeded) && r.interrupted() {
		if r.between() {
			err = ErrInterrupted
			break
		}
		n, err = r.nc.Read(p) // in the middle of a message: read on
	}
	r.waiting.Store(false)
	if r.cut.Load() {
		return 0, net.ErrClosed
	}
	if n > 0 {
		r.heard.Store(true)
		r.fresh.Store(true)
		return n, nil // an error that lasts comes again
	}
	return n, err
}
