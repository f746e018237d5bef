package tree

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

const (
	// streamWindow is how many bytes of a stream may be under way in each direction.
	streamWindow = 1 << 20
	// streamChunk is how many of them a message has at most, so that other messages
	// get in between.
	streamChunk = 32 << 10
	// maxUntaken bounds the bytes that a session has not taken. Only an end that
	// does not keep to the windows can reach it.
	maxUntaken = 256 << 20
	// maxStreams bounds the streams that the other end has opened, each of which is a
	// job or a tunnel of it or of a process below it, and maxAsking those of them
	// whose request has not come: further ones wait, backlog of them in the session.
	// There are twice as many only if the other end does not close its streams.
	maxStreams = 1 << 16
	maxAsking  = 256
	backlog    = 256
)

// streamConfig sets no time limits: streams end with their connection, and until
// then may wait for a slow process.
func streamConfig() *yamux.Config {
	config := yamux.DefaultConfig()
	config.AcceptBacklog = backlog
	config.EnableKeepAlive = false // the connection has heartbeats
	config.ConnectionWriteTimeout = math.MaxInt64
	config.StreamOpenTimeout = 0
	config.StreamCloseTimeout = 0
	config.MaxStreamWindowSize = streamWindow
	config.LogOutput = io.Discard
	return config
}

// streams are the streams between a parent and a child: a yamux session over their
// connection. The session is made for the first stream, so that a process without
// streams pays nothing for them.
type streams struct {
	once    sync.Once
	carrier *carrier
	session *yamux.Session
	serving sync.WaitGroup // streams that the other end has opened

	most, asking int // maxStreams and maxAsking, unless a test says otherwise
}

// over returns the session over a connection, and makes it if necessary: role is
// yamux.Server in the parent, and yamux.Client in the child. serve is called, on a
// goroutine of its own, for each stream that the other end opens. It calls heard
// when it has read the request. After close, the session is closed, or nil.
func (s *streams) over(conn *transport.Conn, role func(io.ReadWriteCloser, *yamux.Config) (*yamux.Session, error), serve func(s net.Conn, heard func())) *yamux.Session {
	s.once.Do(func() {
		s.carrier = &carrier{conn: conn, more: make(chan struct{}, 1)}
		s.carrier.open, s.carrier.close = context.WithCancelCause(context.Background())
		session, err := role(s.carrier, streamConfig())
		if err != nil {
			panic(err) // of the configuration
		}
		s.session = session
		s.serving.Go(func() { s.accept(serve) })
	})
	return s.session
}

// accept serves the streams that the other end opens.
func (s *streams) accept(serve func(net.Conn, func())) {
	most := cmp.Or(s.most, maxStreams)
	open, asking := make(chan struct{}, most), make(chan struct{}, cmp.Or(s.asking, maxAsking))
	for {
		for _, room := range []chan struct{}{open, asking} {
			select {
			case room <- struct{}{}:
			case <-s.session.CloseChan():
				return
			}
		}
		stream, err := s.session.Accept()
		if err != nil {
			return
		}
		if n := s.session.NumStreams(); n > 2*most+backlog {
			err := fmt.Errorf("%w: %d streams that it does not close", wire.ErrMalformed, n)
			s.carrier.close(err)
			s.carrier.conn.Fail(err) // it may say nothing more
			return
		}
		closed := &incoming{Conn: stream, closed: func() { <-open }}
		heard := sync.OnceFunc(func() { <-asking })
		s.serving.Go(func() {
			defer heard()
			serve(closed, heard)
		})
	}
}

// incoming is a stream that says when it is closed here.
type incoming struct {
	net.Conn
	once   sync.Once
	closed func()
}

func (c *incoming) Close() error {
	defer c.once.Do(c.closed)
	return c.Conn.Close()
}

// close ends the streams once nothing more comes. Bytes that have come are still
// passed on.
func (s *streams) close() {
	s.once.Do(func() {})
	if s.session != nil {
		s.session.Close()
	}
}

// carrier is the connection as a session sees it. The goroutine that reads the
// connection hands bytes over without waiting, since other messages come behind
// them. The bytes that the session has not taken are bounded by the windows of its
// streams.
type carrier struct {
	conn  *transport.Conn
	open  context.Context
	close context.CancelCauseFunc

	mu   sync.Mutex
	in   net.Buffers
	size int           // the bytes in it
	cut  cut           // between whole frames of the session and the rest
	more chan struct{} // holds a token when something may have come
}

// cut says how many bytes that came are whole frames. The session reads a frame under
// a lock, which its other streams need: it must not wait for the rest of one there.
type cut struct {
	whole, part int
	head        []byte // of the frame that comes
	body        int    // how much more of it comes
}

// frameHead is the length of the head of a session's frame: version, type, flags,
// stream, and length, which counts bytes only in a frame of data.
const frameHead = 12

// add counts bytes that have come.
func (c *cut) add(b []byte) {
	for len(b) > 0 {
		n := min(len(b), c.body)
		if c.body == 0 {
			n = min(len(b), frameHead-len(c.head))
			if c.head = append(c.head, b[:n]...); len(c.head) == frameHead && c.head[1] == 0 {
				c.body = n + int(binary.BigEndian.Uint32(c.head[8:]))
			}
		}
		b, c.part = b[n:], c.part+n
		if c.body = max(0, c.body-n); c.body == 0 && len(c.head) == frameHead {
			c.whole, c.part, c.head = c.whole+c.part, 0, c.head[:0]
		}
	}
}

// put hands over bytes that have come. It does not block. The error is that of an
// end that does not keep to the bounds.
func (c *carrier) put(frames [][]byte) error {
	if c.open.Err() != nil {
		if cause := context.Cause(c.open); errors.Is(cause, wire.ErrMalformed) {
			return cause
		}
		return nil
	}
	c.mu.Lock()
	c.in = append(c.in, frames...)
	for _, f := range frames {
		c.size += len(f)
		c.cut.add(f)
	}
	much := c.size > maxUntaken
	c.mu.Unlock()
	if much {
		err := fmt.Errorf("%w: streams beyond their windows", wire.ErrMalformed)
		c.close(err)
		return err
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

func (c *carrier) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		n, _ := c.in.Read(p[:min(len(p), c.cut.whole)])
		c.size -= n
		c.cut.whole -= n
		c.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-c.more:
		case <-c.open.Done():
			return 0, io.EOF
		}
	}
}

// Write returns when the bytes are in the socket. A connection that has ended
// accepts and drops them, so that the session goes on to read what has come, and
// then the end.
func (c *carrier) Write(p []byte) (int, error) {
	for chunk := range slices.Chunk(p, streamChunk) {
		if err := c.conn.Send(c.open, []byte{byte(wire.KindStream)}, chunk); err != nil && c.conn.Err() == nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *carrier) Close() error {
	c.close(nil)
	return nil
}

// splice copies bytes both ways until one end closes, and then closes both.
// Goodbye waits for it: what has come is passed on before this process ends.
func (n *Node) splice(a, b net.Conn) {
	if !n.routes.pass() { // this process is about to end
		a.Close()
		b.Close()
		return
	}
	defer n.routes.passing.Done()
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		ways.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				io.Copy(io.Discard, way[1]) // one that takes no more may still have said something
			}
			way[0].Close() // first, since the other one is most likely closed already
			way[1].Close()
		})
	}
	ways.Wait()
}
