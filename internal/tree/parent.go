package tree

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	_ "github.com/fiber-go/fiber/internal/container/pid1" // before the program is initialised
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// Parent is the process that started this one.
type Parent struct {
	Assign wire.Assign
	Value  [][]byte // the encoded argument behind the assignment

	conn          *transport.Conn
	dialled       bool          // conn was dialled, not inherited
	bye           chan struct{} // closed when the parent has read everything up to the goodbye
	told          chan struct{} // closed when the parent has told this process to end
	onBye, onTold sync.Once
	observed      observed
	node          *Node // of this process
	streams       streams
}

// Next waits for the parent's next message that is not this package's own. One
// goroutine at a time calls it; alone says that no other goroutine has anything
// to do. The error is the end of the connection.
func (p *Parent) Next(alone bool) (wire.Kind, [][]byte, error) {
	if alone {
		p.conn.Linger()
	}
	for {
		frames, err := p.conn.Recv()
		if err != nil {
			p.streams.close()
			return 0, nil, err
		}
		kind := wire.KindOf(frames)
		switch kind {
		case wire.KindKill:
			p.streams.close() // for what goes on of a process that is a part of the program
			self.Of().Die(syscall.SIGKILL)
		case wire.KindTerminate:
			p.onTold.Do(func() { close(p.told) })
		case wire.KindBye:
			p.onBye.Do(func() { close(p.bye) })
		case wire.KindObserve:
			var observe wire.Observe
			if err := wire.Unpack(frames, &observe); err != nil {
				p.streams.close()
				return 0, nil, err
			}
			p.observed.set(p, observe.On)
		case wire.KindStream:
			p.session()
			if err := p.streams.carrier.put(frames[1:]); err != nil {
				p.streams.close()
				return 0, nil, err
			}
		default:
			return kind, frames, nil
		}
	}
}

// session returns the session of the streams between the parent and this process.
func (p *Parent) session() *yamux.Session {
	return p.streams.over(p.conn, yamux.Client, func(s net.Conn, heard func()) { p.node.serve(s, nil, heard) })
}

// Post queues a message for the parent; see transport.Conn.Post.
func (p *Parent) Post(frames ...[]byte) error { return p.conn.Post(frames...) }

// Send sends a message and returns when it is in the socket.
func (p *Parent) Send(ctx context.Context, frames ...[]byte) error {
	return p.conn.Send(ctx, frames...)
}

// passTime bounds how long a process that ends goes on passing bytes on: whom they
// are for may not read them.
const passTime = 2 * time.Second

// Goodbye passes on what has come for other processes, and sends the last message
// of this one. It returns when the parent has read all that was sent, or when ctx
// or the connection ends. Over a network,
// messages would be lost if this process ended sooner: a socket that is closed
// with unread input is reset, and forgets what it still had to deliver.
func (p *Parent) Goodbye(ctx context.Context) {
	defer p.streams.close()
	select {
	case <-p.node.routes.leave():
	case <-p.conn.Done():
	case <-time.After(passTime):
	}
	if !p.dialled {
		p.conn.Flush(ctx)
		return
	}
	if p.conn.Send(ctx, wire.MustPack(wire.KindBye, nil)...) != nil {
		return
	}
	select {
	case <-p.bye:
	case <-p.conn.Done():
	case <-ctx.Done():
	}
}

// Terminated is closed when the parent has told this process to end. A SIGTERM
// that comes without it is not the parent's: the machine may be shutting down.
func (p *Parent) Terminated() <-chan struct{} { return p.told }

// Done is closed when the connection to the parent has ended.
func (p *Parent) Done() <-chan struct{} { return p.conn.Done() }
