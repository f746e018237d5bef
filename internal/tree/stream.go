package tree

import (
	"context"
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
	// streamChunk is how many of them a message has at most, so that others get
	// in between.
	streamChunk = 32 << 10
	// maxUntaken bounds what a session has not taken: it takes what comes, unless
	// the other end sends what no Fiber sends.
	maxUntaken = 256 << 20
)

// streamConfig says nothing of time: a connection's end ends its streams, and
// what its process is slow to take may wait until then.
func streamConfig() *yamux.Config {
	config := yamux.DefaultConfig()
	config.EnableKeepAlive = false // the connection has heartbeats
	config.ConnectionWriteTimeout = math.MaxInt64
	config.StreamOpenTimeout = 0
	config.StreamCloseTimeout = 0
	config.MaxStreamWindowSize = streamWindow
	config.LogOutput = io.Discard
	return config
}

// streams are those between a parent and a child. They are a yamux session over
// their connection, from the first stream on: a process without streams pays
// nothing for them.
type streams struct {
	mu      sync.Mutex
	carrier *carrier
	session *yamux.Session
	ended   bool
	serving sync.WaitGroup // those that the other end has opened
}

// over returns the session over a connection, and makes it if there is none:
// with yamux.Server in the parent, and yamux.Client in the child. Each stream
// that the other end opens is served. The session is nil after the end.
func (s *streams) over(conn *transport.Conn, role func(io.ReadWriteCloser, *yamux.Config) (*yamux.Session, error), serve func(net.Conn)) *yamux.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.session != nil {
		return s.session
	}
	s.carrier = &carrier{conn: conn, more: make(chan struct{}, 1)}
	s.carrier.open, s.carrier.close = context.WithCancel(context.Background())
	session, err := role(s.carrier, streamConfig())
	if err != nil {
		panic(err) // of the configuration
	}
	s.session = session
	s.serving.Go(func() {
		for {
			stream, err := session.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() { serve(stream) })
		}
	})
	return session
}

// take takes what has come. It does not block.
func (s *streams) take(frames [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carrier != nil {
		s.carrier.take(frames)
	}
}

// end ends the streams when nothing more comes. What has come is still passed on.
func (s *streams) end() {
	s.mu.Lock()
	s.ended = true
	session := s.session
	s.session = nil
	s.mu.Unlock()
	if session != nil {
		session.Close()
	}
}

// carrier is the connection as a session sees it. The goroutine that reads the
// connection hands over what comes and goes on: other messages stand behind it.
// What the session has not taken yet is no more than the windows of its streams.
type carrier struct {
	conn  *transport.Conn
	open  context.Context
	close context.CancelFunc

	mu   sync.Mutex
	in   net.Buffers
	size int           // its bytes
	more chan struct{} // has one in it when something may have come
}

func (c *carrier) take(frames [][]byte) {
	if c.open.Err() != nil {
		return
	}
	c.mu.Lock()
	c.in = append(c.in, frames...)
	for _, f := range frames {
		c.size += len(f)
	}
	much := c.size > maxUntaken
	c.mu.Unlock()
	if much {
		c.close()
		return
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *carrier) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		n, _ := c.in.Read(p)
		c.size -= n
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
// takes them, too: what it still has to read is the session's, and then its end.
func (c *carrier) Write(p []byte) (int, error) {
	for chunk := range slices.Chunk(p, streamChunk) {
		if err := c.conn.Send(c.open, []byte{byte(wire.KindStream)}, chunk); err != nil && c.conn.Err() == nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *carrier) Close() error {
	c.close()
	return nil
}

// splice passes on what comes, both ways, until one end closes, and closes both.
func splice(a, b net.Conn) {
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		ways.Go(func() {
			io.Copy(way[0], way[1])
			way[0].Close() // first, since the other one has closed itself, most likely
			way[1].Close()
		})
	}
	ways.Wait()
}
