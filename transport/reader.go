package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	greetingSize = 64
	maxCommand   = 4 << 10 // bytes in a command: READY, PING, PONG
	readBuffer   = 4 << 10
	maxBuffer    = 32 << 10 // of a reader that one read has filled the small buffer of
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
	br      *bufio.Reader // reads large frames straight from the socket
	command func(body []byte) error
	max     atomic.Int64 // bytes in a message
	frames  int          // frames in a message

	payload uint64 // bytes of the current frame still to be handed to the codec
	begun   bool   // a message has begun and not ended
	inside  bool   // more frames of the current message follow
	size    int64  // of the current message so far
	count   int    // its frames so far

	read   [][]byte // the current message's frames so far
	body   bool     // frame is being read
	frame  []byte   // the current frame
	filled int      // bytes of frame that have been read

	borrowed borrowed // the other end's arena
	lent     *lent    // where the current frame is, nil if it comes through the socket

	err error // what ended the stream

	full    bool   // the last read from the socket took as much as it could
	crowded bool   // a read has filled the small buffer
	carried []byte // what the large buffer begins with

	within      context.Context // ends a read that blocks; nil for none
	unwatch     func() bool     // ends the watch of within; nil until a read may block
	interrupted chan struct{}   // closed when the end of within has ended reads

	cut     atomic.Bool  // the socket is being closed: reads may have gaps
	waiting atomic.Bool  // a read is blocked in the socket
	heard   atomic.Bool  // something was read since the last heartbeat
	fresh   *atomic.Bool // the writer's
}

func newReader(nc net.Conn, fresh *atomic.Bool, command func([]byte) error) *reader {
	r := &reader{nc: nc, command: command, fresh: fresh, frames: 1, payload: greetingSize}
	r.max.Store(maxCommand)
	r.br = bufio.NewReaderSize(stream{r}, readBuffer)
	return r
}

// stream is the socket as a reader's buffer sees it.
type stream struct{ *reader }

// Read returns either bytes or an error.
func (r stream) Read(p []byte) (int, error) {
	if n := copy(p, r.carried); n > 0 {
		r.carried = nil // it was smaller than p
		return n, nil
	}
	read := r.nc.Read
	if s, ok := r.nc.(detached); ok && r.body { // the rest of a message is on its way
		read = s.ReadSoon
	}
	if r.within != nil && r.unwatch == nil {
		interrupted := make(chan struct{})
		r.interrupted = interrupted
		r.unwatch = context.AfterFunc(r.within, func() {
			_ = r.nc.SetReadDeadline(time.Unix(1, 0))
			close(interrupted)
		})
	}
	r.waiting.Store(true)
	n, err := read(p)
	r.waiting.Store(false)
	r.full = n == len(p)
	r.crowded = r.crowded || r.full && n <= readBuffer
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

// Read returns the greeting and then the frames of the handshake, for the
// codec. It never returns bytes of two frames at once.
func (r *reader) Read(p []byte) (n int, err error) {
	if r.payload == 0 {
		flags, size, head, err := r.peek()
		if err == nil {
			err = r.admit(flags, size)
		}
		if err != nil {
			return 0, err
		}
		r.payload = uint64(head) + size
	}
	n, err = r.br.Read(p[:min(uint64(len(p)), r.payload)])
	r.payload -= uint64(n)
	return n, unexpected(err)
}

// grow replaces the small buffer by a large one, once. A connection whose messages are small keeps the small one.
func (r *reader) grow() {
	r.carried, _ = r.br.Peek(r.br.Buffered())
	r.br = bufio.NewReaderSize(stream{r}, maxBuffer)
	_, _ = r.br.Peek(len(r.carried))
}

// unexpected turns an end of file in the middle of something into what it is.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// messageWithin is message, but the end of ctx ends a read that blocks, with the
// ctx's error. The next call goes on where this one has stopped.
func (r *reader) messageWithin(ctx context.Context) ([][]byte, error) {
	if ctx.Done() != nil {
		r.within = ctx
	}
	frames, err := r.message(nil)
	r.within = nil
	if r.unwatch != nil {
		if !r.unwatch() {
			<-r.interrupted
			_ = r.nc.SetReadDeadline(time.Time{})
		}
		r.unwatch = nil
	}
	return frames, err
}

// message reads the next message, into fresh memory or, unless into is nil, a
// message of one frame into that. An error lasts, except the end of within.
func (r *reader) message(into []byte) (frames [][]byte, err error) {
	if r.err != nil {
		return nil, r.err
	}
	defer func() {
		if err != nil && r.within != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			err = r.within.Err()
			return
		}
		r.err = err
	}()
	for {
		if !r.body {
			if !r.inside {
				r.begun = false
			}
			if r.crowded && r.br.Size() == readBuffer {
				r.grow()
			}
			size, err := r.next()
			if err == nil {
				size, err = r.find(size)
			}
			if err != nil {
				return nil, err
			}
			switch {
			case into == nil && r.lent == nil:
				r.frame = make([]byte, size)
			case into == nil:
			case len(r.read) > 0:
				return nil, &SizeError{Size: 2, Limit: 1, Frames: true}
			case size > uint64(len(into)):
				return nil, &SizeError{Size: int64(size), Limit: int64(len(into))}
			default:
				r.frame = into[:size]
			}
			r.body, r.filled = true, 0
		}
		if r.lent != nil {
			if r.frame, err = r.borrowed.take(r.frame[:0], *r.lent); err != nil {
				return nil, err
			}
			r.lent = nil
		} else if n, err := io.ReadFull(r.br, r.frame[r.filled:]); err != nil {
			r.filled += n
			return nil, unexpected(err)
		}
		frames, r.frame, r.body = append(r.read, r.frame), nil, false
		if !r.inside {
			if len(r.borrowed.next) > 0 {
				return nil, fmt.Errorf("%w: more frames of a message than it has", ErrProtocol)
			}
			r.read = nil
			return frames, nil
		}
		r.read = frames
	}
}

// find returns the size of the next frame, wherever it is.
func (r *reader) find(size uint64) (uint64, error) {
	all := r.borrowed.next
	if len(all) == 0 || all[0].frame != len(r.read) {
		return size, nil
	}
	l := all[0]
	if r.borrowed.next = all[1:]; size > 0 {
		return 0, fmt.Errorf("%w: a frame that comes twice", ErrProtocol)
	}
	if limit := r.max.Load(); l.size > uint64(max(limit-r.size, 0)) {
		return 0, &SizeError{Size: r.size + int64(min(l.size, 1<<62)), Limit: limit}
	}
	r.size += int64(l.size)
	r.lent = &l
	return l.size, nil
}

// between reports whether the stream is between two messages.
func (r *reader) between() bool { return !r.begun && r.br.Buffered() == 0 }

// arrived handles the commands at the beginning of the buffer, and reports
// whether something else follows them.
func (r *reader) arrived() bool {
	for {
		head, _ := r.br.Peek(min(2, r.br.Buffered()))
		switch {
		case r.err != nil || len(head) == 2 && head[0]&(flagCommand|flagLong) != flagCommand:
			return true
		case len(head) < 2 || r.br.Buffered() < 2+int(head[1]):
			return false
		}
		r.err = r.swallow(head[0], uint64(head[1]), 2)
	}
}

// complete reports whether the buffer begins with a whole message, or with what
// ended the stream.
func (r *reader) complete() bool {
	if r.err != nil {
		return true
	}
	b, _ := r.br.Peek(r.br.Buffered())
	for len(b) >= 2 {
		flags, size, n := b[0], uint64(b[1]), 2
		if flags&flagLong != 0 {
			if n = 9; len(b) < n {
				return false
			}
			size = binary.BigEndian.Uint64(b[1:])
		}
		if uint64(len(b)-n) < size {
			return false
		}
		if flags&(flagMore|flagCommand) == 0 {
			return true
		}
		b = b[n+int(size):]
	}
	return false
}

// short reports whether the buffer begins with a whole message and nothing of it is elsewhere, as a command in front of it may say.
func (r *reader) short() bool {
	head, _ := r.br.Peek(min(1, r.br.Buffered()))
	return r.err == nil && len(head) > 0 && head[0]&flagCommand == 0 && r.complete()
}

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
		_, _ = r.br.Discard(n)
		return size, nil
	}
}

// peek reads a header, of n bytes, and leaves it in the buffer.
func (r *reader) peek() (flags byte, size uint64, n int, err error) {
	head, err := r.br.Peek(2)
	if err != nil {
		if r.begun || len(head) > 0 {
			err = unexpected(err)
		}
		return 0, 0, 0, err
	}
	flags = head[0]
	switch {
	case flags&^(flagMore|flagLong|flagCommand) != 0:
		return 0, 0, 0, fmt.Errorf("%w: frame with flags %#x", ErrProtocol, flags)
	case flags&flagLong == 0:
		return flags, uint64(head[1]), 2, nil
	}
	if head, err = r.br.Peek(9); err != nil {
		return 0, 0, 0, unexpected(err)
	}
	return flags, binary.BigEndian.Uint64(head[1:]), 9, nil
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
	r.begun, r.inside = true, flags&flagMore != 0
	return nil
}

func (r *reader) swallow(flags byte, size uint64, n int) error {
	if size > maxCommand-9 || flags&flagMore != 0 {
		return fmt.Errorf("%w: command of %d bytes with flags %#x", ErrProtocol, size, flags)
	}
	frame, err := r.br.Peek(n + int(size))
	if err != nil {
		return unexpected(err)
	}
	err = r.command(frame[n:])
	_, _ = r.br.Discard(len(frame))
	return err
}
