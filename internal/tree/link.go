package tree

import (
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// link is the connection to a child, and what has come over it.
type link struct {
	conn    *transport.Conn
	reader  *turn.Reader
	streams streams
	bye     bool // the child has said goodbye; only for whoever reads
	pid     int
	memory  atomic.Pointer[wire.Status]

	gone chan struct{} // closed when all has been read
}

// hangUp closes the connection to a process that has ended, or was killed, if it
// stays open. A process on an engine may live on after the engine, or this
// process, has lost sight of it.
func (l *link) hangUp() {
	select {
	case <-l.gone:
	case <-time.After(engineGrace):
		l.conn.Close()
	}
}

// Post queues a message for the child; see transport.Conn.Post.
func (l *link) Post(frames ...[]byte) error { return l.conn.Post(frames...) }

// Queue is Post for a message that may wait for the next one, or for Push; see transport.Conn.Queue.
func (l *link) Queue(frames ...[]byte) error { return l.conn.Queue(frames...) }

// Push writes what Queue has left.
func (l *link) Push() { l.conn.Push() }

// Gone is closed when all that the process said has been read and nothing more
// will come. How it ended is known only when Done is closed, which may take an
// engine a while longer.
func (l *link) Gone() <-chan struct{} { return l.gone }

// PID is the process id in the process's own namespace.
func (l *link) PID() int { return l.pid }

// Memory returns what the process has in memory, as it last reported it.
func (l *link) Memory() wire.Status {
	if s := l.memory.Load(); s != nil {
		return *s
	}
	return wire.Status{}
}
