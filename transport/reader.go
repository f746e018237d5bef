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

// reader follows the frames of a ZMTP stream on its way to the codec, so that a
// size is checked before the codec takes memory for it. Commands that come
// after the handshake end here.
type reader struct {
	nc      net.Conn
	command func(body []byte) error
	max     atomic.Int64 // bytes in a message
	frames  int          // frames in a message
	open    bool         // the handshake is over

	buf    []byte // starts small, grows when reads fill it
	lo, hi int    // buf[lo:hi] is unread

	header  []byte // of the current frame, as far as not handed out
	store   [9]byte
	payload uint64 // bytes of the current frame that are not handed out
	inside  bool   // more frames of the current message follow
	size    int64  // of the current message so far
	count   int    // its frames so far

	err error // what ended the stream

	cut          atomic.Bool // the socket is being closed, and reads may have gaps
	waiting      atomic.Bool // a read is blocked in the socket
	heard        atomic.Bool // something was read since the last heartbeat
	interrupting sync.Mutex  // the deadline and interrupts, which belong together
	interrupts   bool        // the deadline is to interrupt a read
	fresh        *atomic.Bool
}

func newReader(nc net.Conn, fresh *atomic.Bool, command func([]byte) error) *reader {
	r := &reader{nc: nc, command: command, fresh: fresh, frames: 1, payload: greetingSize}
	r.max.Store(maxCommand)
	r.buf = make([]byte, minBuffer)
	return r
}

// Read hands the codec the greeting, then each frame's header and body. It never
// returns bytes of two frames at once.
func (r *reader) Read(p []byte) (n int, err error) {
	switch {
	case r.err != nil || len(p) == 0:
		return 0, r.err
	case len(r.header) == 0 && r.payload == 0:
		if err := r.next(); err != nil {
			if err != ErrInterrupted { // that one passes
				r.err = err
			}
			return 0, err
		}
		fallthrough
	case len(r.header) > 0:
		n = copy(p, r.header)
		r.header = r.header[n:]
		return n, nil
	}
	n, r.err = r.body(p[:min(uint64(len(p)), r.payload)])
	r.payload -= uint64(n)
	if r.err == io.EOF {
		r.err = io.ErrUnexpectedEOF
	}
	return n, r.err
}

// between tells that the stream is between two messages.
func (r *reader) between() bool { return !r.inside && r.payload == 0 && r.lo == r.hi }

// next reads headers up to one that the codec may see.
func (r *reader) next() error {
	for {
		flags, size, n, err := r.peek()
		if err != nil {
			return err
		}
		if flags&flagCommand != 0 && r.open {
			if err := r.swallow(flags, size, n); err != nil {
				return err
			}
			continue
		}
		if err := r.admit(flags, size); err != nil {
			return err
		}
		r.header = r.store[:copy(r.store[:], r.buf[r.lo:r.lo+n])]
		r.lo += n
		r.payload = size
		return nil
	}
}

// peek reads a header of n bytes without taking it out of the buffer.
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

// admit checks a frame against what its message may still have.
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

// body reads from the buffer, or past it where p is large.
func (r *reader) body(p []byte) (int, error) {
	if r.lo == r.hi {
		if len(p) >= len(r.buf) {
			return r.read(p)
		}
		if err := r.fill(1); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.lo:r.hi])
	r.lo += n
	return n, nil
}

// fill waits until n bytes, at most minBuffer, are in the buffer.
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

// interrupt has a read that waits end with a deadline that says so.
func (r *reader) interrupt() {
	r.interrupting.Lock()
	defer r.interrupting.Unlock()
	r.interrupts = true
	_ = r.nc.SetReadDeadline(time.Unix(1, 0))
}

// interrupted says whether a deadline that passed was an interrupt, and takes
// it away.
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

// read reads from the socket; an error comes without bytes.
func (r *reader) read(p []byte) (int, error) {
	r.waiting.Store(true)
	n, err := r.nc.Read(p)
	for errors.Is(err, os.ErrDeadlineExceeded) && r.interrupted() {
		if r.between() {
			err = ErrInterrupted
			break
		}
		n, err = r.nc.Read(p) // in the middle of a message it goes on
	}
	r.waiting.Store(false)
	if r.cut.Load() {
		return 0, net.ErrClosed
	}
	if n > 0 {
		r.heard.Store(true)
		r.fresh.Store(true)
		return n, nil // the error, if it lasts, comes again
	}
	return n, err
}
