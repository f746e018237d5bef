package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// Conn is a ZMTP connection. It carries whole messages of one or more frames,
// in order. Any number of goroutines may send concurrently; one at a time may
// receive. A Conn must be closed, even after an error.
type Conn struct {
	opts Options
	nc   net.Conn
	r    *reader
	w    *writer
	z    *zmq4.Conn
	beat heartbeat

	scratch [][]byte // frames of the message being framed; under w.mu
	spoke   bool     // a message was framed since the last heartbeat; under w.mu
	pongs   int      // PONGs queued since the queue was last empty; under w.mu

	lends bool // large frames may go through memory that both ends have mapped, if there are addresses for much of it

	sent, got atomic.Int64 // bytes of messages

	held atomic.Bool // Room blocks instead of Recv

	ended  sync.Once
	closed sync.Once
	done   chan struct{}
	err    error // set before done is closed
}

// Open does the ZMTP handshake over nc and returns the connection, which owns
// nc; on error nc is closed. Open blocks for at most Options.HandshakeTimeout.
// Exactly one of the two ends must be the server.
//
// Open does not authenticate the peer: it is for sockets that were inherited or
// made by this process. For others, see Dial.
func Open(nc net.Conn, server bool, opts Options) (*Conn, error) {
	opts = opts.withDefaults()
	c, err := open(nc, server, opts, time.Now().Add(opts.HandshakeTimeout))
	if err != nil {
		return nil, err
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	return c, nil
}

// open does the handshake and leaves the deadline set. Until start the
// connection has tight bounds and no heartbeats.
func open(nc net.Conn, server bool, opts Options, deadline time.Time) (*Conn, error) {
	_, unix := nc.(*net.UnixConn)
	nc = detachableOf(nc)
	c := &Conn{opts: opts, nc: nc, lends: unix && opts.Lend && strconv.IntSize == 64, done: make(chan struct{})}
	c.w = newWriter(nc, opts.MaxQueue, c.writeFailed)
	c.r = newReader(nc, &c.w.fresh, c.command)
	if err := c.handshake(server, deadline); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("transport: handshake: %w", err)
	}
	return c, nil
}

func (c *Conn) handshake(server bool, deadline time.Time) (err error) {
	defer func() {
		// The codec panics on metadata that is cut short: it indexes past the
		// end.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrProtocol, p)
		}
	}()
	if err := c.nc.SetDeadline(deadline); err != nil {
		return err
	}
	z, err := zmq4.Open(&wire{Conn: c.nc, c: c}, null.Security(), zmq4.SocketType(c.opts.SocketType), nil, server, nil)
	if err != nil {
		return err
	}
	c.z = z
	return nil
}

// start widens the bounds to those of the options and starts the heartbeats.
func (c *Conn) start() error {
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		_ = c.Close()
		return fmt.Errorf("transport: handshake: %w", err)
	}
	c.r.frames = c.opts.MaxFrames
	c.r.max.Store(c.opts.MaxMessage)
	c.beat.start(c)
	return nil
}

// wire is the socket as the codec sees it: it reads through the reader's checks
// and writes into the outbox.
type wire struct {
	net.Conn
	c *Conn
}

func (s *wire) Read(p []byte) (int, error) { return s.c.r.Read(p) }

func (s *wire) Write(p []byte) (int, error) {
	w := s.c.w
	if s.c.z != nil {
		return w.Write(p) // the caller holds the lock
	}
	w.mu.Lock()
	n, err := w.Write(p)
	w.kick(true)
	return n, err
}

// Send sends a message of one or more frames and returns when all of it is in
// the socket. It blocks while Options.MaxQueue bytes are queued or the socket is
// full. If ctx ends before the first byte was written, the error is ctx.Err()
// and the message will never be delivered. Once a part was written, the message
// cannot be taken back: the connection keeps a copy of the rest and goes on to
// write it, and Send returns at once, with an error that is both ctx.Err() and
// ErrUnknownOutcome. The frames must not be changed until Send returns.
//
// The error is a *SizeError, which leaves the connection as it was, one of these
// two, or the error that ended the connection.
func (c *Conn) Send(ctx context.Context, frames ...[]byte) error {
	size, err := c.check(frames)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := c.w
	if err := w.admit(ctx, size); err != nil {
		w.mu.Unlock()
		return err
	}
	c.offer(frames)
	from, lent := w.out.end(), w.arena.end
	if err := c.frame(frames); err != nil {
		w.mu.Unlock()
		return err
	}
	to, lentTo := w.out.end(), w.arena.end
	if ctx.Done() != nil {
		w.lent = to
	}
	w.kick(true)
	w.mu.Lock()
	err = w.settle(ctx, from, to)
	if err != nil && w.err == nil && !errors.Is(err, ErrUnknownOutcome) {
		w.arena.takeBack(lent, lentTo)
	}
	w.mu.Unlock()
	if err == nil {
		c.sent.Add(size)
	}
	return err
}

// Post queues a message of one or more frames and returns; it never blocks. As
// much as the socket takes is written at once or, in a burst, together with what
// follows. Options.MaxQueue does not apply: callers must bound what they have
// outstanding, see Room. The frames must not be changed until they are written; Flush
// waits for that.
//
// The error is a *SizeError or the error that ended the connection. If the
// message cannot be written later, that ends the connection.
func (c *Conn) Post(frames ...[]byte) error {
	return c.post(frames, (*writer).kick)
}

// Queue is Post for a message that others follow at once: it may wait for them, and
// for Push, which writes what is queued.
func (c *Conn) Queue(frames ...[]byte) error {
	return c.post(frames, func(w *writer, _ bool) { w.mu.Unlock() })
}

// Push writes what Queue has left, as Post does.
func (c *Conn) Push() {
	c.w.mu.Lock()
	c.w.kick(false)
}

func (c *Conn) post(frames [][]byte, then func(w *writer, patient bool)) error {
	size, err := c.check(frames)
	if err != nil {
		return err
	}
	w := c.w
	w.mu.Lock()
	if w.err != nil {
		defer w.mu.Unlock()
		return w.err
	}
	c.offer(frames)
	if err := c.frame(frames); err != nil {
		w.mu.Unlock()
		return err
	}
	c.sent.Add(size)
	then(w, false)
	return nil
}

// Traffic returns how many bytes of messages were sent, or are to be, and how many were received.
func (c *Conn) Traffic() (sent, received int64) { return c.sent.Load(), c.got.Load() }

// Flush blocks until everything that was sent or posted before is in the
// socket. It returns ctx.Err() if ctx ends first, or the error that ended the
// connection.
func (c *Conn) Flush(ctx context.Context) error { return c.Past(ctx, c.Mark()) }

// Room blocks while more than Options.MaxQueue bytes are queued, as they may be
// after Post. Whoever answers what Recv returns with Post bounds the answers by
// calling Room before Recv. Meanwhile a peer that reads nothing counts as silent.
// Room returns nil, or the error that ended the connection.
func (c *Conn) Room() error {
	if !c.w.over.Load() {
		return nil
	}
	c.held.Store(true)
	defer c.held.Store(false)
	return c.w.room(&c.r.heard)
}

// Mark returns the place in the queue behind everything that was sent or posted
// before; see Past.
func (c *Conn) Mark() uint64 {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.out.end()
}

// Past blocks until everything before mark is in the socket: the memory of
// those frames is then the caller's again. Its errors are those of Flush.
func (c *Conn) Past(ctx context.Context, mark uint64) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.settle(ctx, mark, mark)
}

// check returns the size of a message, or an error if the message exceeds the
// bounds.
func (c *Conn) check(frames [][]byte) (size int64, err error) {
	if len(frames) == 0 {
		return 0, errors.New("transport: a message must have at least one frame")
	}
	if len(frames) > c.opts.MaxFrames {
		return 0, &SizeError{Size: int64(len(frames)), Limit: int64(c.opts.MaxFrames), Frames: true}
	}
	for _, f := range frames {
		size += int64(len(f))
	}
	if size > c.opts.MaxMessage {
		return 0, &SizeError{Size: size, Limit: c.opts.MaxMessage}
	}
	return size, nil
}

// frame lets the codec frame a message into the outbox. The slice of frames is
// copied to scratch so that the caller's can stay on its stack.
func (c *Conn) frame(frames [][]byte) error {
	c.scratch = append(c.scratch[:0], frames...)
	c.lend(c.scratch)
	err := c.z.SendMsg(zmq4.NewMsgFrom(c.scratch...))
	clear(c.scratch)
	c.spoke = true
	if c.w.out.bytes > c.w.limit {
		c.w.over.Store(true)
	}
	if err != nil {
		return ErrClosed // the codec has seen the end of the stream
	}
	return nil
}

// Recv blocks until the next message. The frames are fresh memory and belong to
// the caller. One goroutine at a time may call Recv.
//
// Every error ends the connection: io.EOF when the peer has closed it between
// two messages, ErrClosed after Close, ErrSilent, ErrProtocol, *SizeError, or the
// socket's own. After a failed write Recv still returns what the peer had sent
// before.
func (c *Conn) Recv() ([][]byte, error) { return c.received(c.r.message(nil)) }

// RecvContext is Recv for a caller that may leave: when ctx ends while nothing
// comes, also in the middle of a message, RecvContext returns ctx.Err(). The
// connection goes on, and the next Recv returns that message.
func (c *Conn) RecvContext(ctx context.Context) ([][]byte, error) {
	frames, err := c.r.messageWithin(ctx)
	if err != nil && err == ctx.Err() {
		return nil, err
	}
	return c.received(frames, err)
}

// RecvInto is Recv for a message of one frame, which it reads into the first n
// bytes of buf. A message of more frames, or of more than len(buf) bytes, is a
// *SizeError and ends the connection. One goroutine at a time may call Recv,
// RecvContext or RecvInto.
func (c *Conn) RecvInto(buf []byte) (n int, err error) {
	if buf == nil {
		buf = []byte{}
	}
	frames, err := c.received(c.r.message(buf))
	if err != nil {
		return 0, err
	}
	return len(frames[0]), nil
}

// LimitMessages sets the most bytes of the messages received from now on, up to
// Options.MaxMessage; 0 stands for that. Until a peer has said what it is, it need
// not say much.
func (c *Conn) LimitMessages(n int64) {
	if n == 0 {
		n = c.opts.MaxMessage
	}
	c.r.max.Store(min(n, c.opts.MaxMessage))
}

// received ends the connection for the error of a read.
func (c *Conn) received(frames [][]byte, err error) ([][]byte, error) {
	if err != nil {
		err = c.readError(err)
		c.finish(err)
	}
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	c.got.Add(int64(size))
	return frames, err
}

// Linger waits in the kernel, for 10 ms at most, until there is something to
// receive, and reports whether there is. Call it before Recv when the next
// message is expected soon and other goroutines have been given nothing to do:
// that is the shortest way from the peer's write to the reader. Linger returns
// false at once if recent messages took longer to come, if too few threads would
// be left for other goroutines, or if the connection is not a unix socket.
func (c *Conn) Linger() bool {
	if c.r.arrived() {
		return true
	}
	if c.w.socket == nil || !c.w.socket.Linger() {
		return false
	}
	_, err := c.r.br.Peek(c.r.br.Buffered() + 1)
	return err != nil || c.r.arrived() // Recv returns the error
}

// Arrived reports whether a whole message has come, which Recv returns without
// waiting. It misses large messages, of 4 KiB at least, and over TLS some others. Only
// the goroutine that may call Recv may call Arrived. After the only message of
// a while it makes no system call, except over TLS.
func (c *Conn) Arrived() bool {
	_, encrypted := c.nc.(*tls.Conn)
	for !c.r.complete() {
		more := c.r.full || encrypted // each record is a read of its own
		if !more || c.r.br.Buffered() == c.r.br.Size() || !pending(c.nc) {
			return false
		}
		if _, err := c.r.br.Peek(c.r.br.Buffered() + 1); err != nil {
			return true // Recv returns the error
		}
	}
	return true
}

// Buffered reports whether a whole message has been read from the socket, of less than 32 KiB, which Recv returns without
// a system call. It may miss one. Only the goroutine that may call Recv may call Buffered.
func (c *Conn) Buffered() bool { return c.r.short() }

// readError turns the error of a failed read into the one that Recv returns.
func (c *Conn) readError(err error) error {
	var size *SizeError
	_, unix := c.nc.RemoteAddr().(*net.UnixAddr)
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrDeadlineExceeded):
		if ended := c.Err(); ended != nil {
			return ended
		}
		return ErrClosed
	case err == io.EOF:
		// After a failed write, the end of file is our own doing.
		if ended := c.Err(); ended != nil && !errors.Is(ended, syscall.EPIPE) {
			return ended
		}
		return err
	case errors.As(err, &size), errors.Is(err, ErrProtocol):
		return err
	case errors.Is(err, syscall.ECONNRESET) && unix && c.r.between():
		// A unix peer that closes with something of ours unread, such as a
		// heartbeat, resets the connection: that means no more than an end of
		// file.
		return io.EOF
	}
	return fmt.Errorf("transport: receive: %w", err)
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Done returns a channel that is closed when the connection has ended: by
// Close, by an error that Recv returned, by a failed write, or by the peer's
// silence. While no Recv waits, only a write notices that the peer has gone.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns the error that ended the connection; nil before Done is closed.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Close ends the connection, and with ErrClosed everything that waits on it.
// What is queued but not yet in the socket is lost: see Flush. Close may be
// called concurrently, any number of times, and returns when nothing of the
// connection runs any more. The error is always nil.
func (c *Conn) Close() error {
	c.finish(ErrClosed)
	c.w.done.Wait()
	return nil
}

// Fail ends the connection with err, which a Recv returns then. It waits for nothing.
func (c *Conn) Fail(err error) { c.finish(err) }

// finish ends the connection for err and closes the socket.
func (c *Conn) finish(err error) {
	undelivered := c.stop(err)
	c.closed.Do(func() {
		c.r.cut.Store(true)
		c.r.borrowed.close()
		closeSocket(c.nc, err == ErrClosed && !undelivered)
	})
}

// writeFailed ends the connection but lets Recv return what had arrived: the
// last words of a peer that has gone are not lost.
func (c *Conn) writeFailed(err error) {
	c.stop(fmt.Errorf("transport: send: %w", err))
	stopReading(c.nc)
}

func (c *Conn) stop(err error) (undelivered bool) {
	c.ended.Do(func() {
		c.err = err
		close(c.done)
		c.beat.stop()
	})
	return c.w.stop(c.err)
}
