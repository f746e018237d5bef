package tree

import (
	"context"
	"fmt"
	"net"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A tunnel is a stream along the tree to a listener of another process. The two ends
// speak TLS and authenticate each other, so that no process in between can read it.

// dialAlong asks the process at a place to connect this one to its listener at
// address.
func (n *Node) dialAlong(ctx context.Context, address, place string, opts transport.Options) (*transport.Conn, error) {
	back := ""
	l, err := n.Listen() // which the process there tries to dial
	if err == nil {
		defer l.Close()
		back, _, _ = split(l.Endpoint())
	}
	late, cancel := context.WithTimeout(ctx, answerTimeout) // a process on the way may have died with the request
	defer cancel()
	here, there := net.Pipe()
	go n.connect(there, &request{Do: doConnect, To: place, Listener: address, Back: back})
	answer, err := answered(late, here)
	if err == nil && (!answer.Dialled || l == nil) {
		return transport.Over(ctx, here, n.Credentials, opts)
	}
	if err == nil {
		here.Close()
		defer context.AfterFunc(late, func() { l.Close() })()
		var conn *transport.Conn
		if conn, err = l.Accept(); err == nil {
			return conn, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case late.Err() != nil:
		err = fmt.Errorf("the process did not answer within %v", answerTimeout)
	}
	return nil, err
}

// connect connects the process that has opened a stream to the listener that it
// wants, or forwards the stream a step nearer to it.
func (n *Node) connect(s net.Conn, r *request) {
	defer s.Close()
	if r.To != n.Place {
		forward(s, n.toward(r.To), r)
		return
	}
	n.routes.mu.Lock()
	l := n.routes.listeners[r.Listener]
	n.routes.mu.Unlock()
	if l == nil {
		return
	}
	if conn := n.dialBack(r); conn != nil {
		wire.Write(s, reply{Dialled: true})
		go l.Deliver(conn)
		return
	}
	nc, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		return
	}
	if wire.Write(s, reply{}) != nil {
		nc.Close()
		return
	}
	splice(s, nc)
}

// dialBack dials the process that wants a connection. It returns nil if that process
// cannot be dialled.
func (n *Node) dialBack(r *request) *transport.Conn {
	if r.Back == "" || n.tooFar(r.Back) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), directTimeout)
	defer cancel()
	conn, err := transport.Dial(ctx, r.Back, n.Credentials, n.TransportOptions(false))
	if err != nil {
		n.noteFar(r.Back)
		return nil
	}
	return conn
}
