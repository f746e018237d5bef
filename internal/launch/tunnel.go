package launch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// A tunnel is a stream along the tree to a listener of another process. What its
// bytes are, both ends' TLS and its authentication, no process in between can tell.

// dialAlong has the process at a place connect this one to its listener at
// address.
func (n *Node) dialAlong(ctx context.Context, address, place string, opts transport.Options) (*transport.Conn, error) {
	id, came := n.want()
	defer n.forget(id, came)
	late, cancel := context.WithTimeout(ctx, answerTimeout) // somebody on the way may have died with the question
	defer cancel()
	here, there := net.Pipe()
	go n.connect(there, &request{Do: doConnect, To: place, Listener: address, Back: n.foundAt(), ID: id})
	answer, err := answered(late, here)
	if err == nil && !answer.Dialled {
		return transport.Over(ctx, here, n.Credentials, opts)
	}
	if err == nil {
		here.Close()
		select {
		case conn := <-came:
			return conn, nil
		case <-late.Done():
			err = late.Err()
		}
	}
	if late.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the process was asked and gave no answer for %v", answerTimeout)
	}
	return nil, err
}

// foundAt is where others dial this process, "" when they cannot.
func (n *Node) foundAt() string {
	n.places.mu.Lock()
	found := n.places.found
	n.places.mu.Unlock()
	if found == nil {
		return ""
	}
	endpoint, err := found()
	if err != nil {
		return ""
	}
	address, _, _ := split(endpoint)
	return address
}

// want notes that another process is asked to dial this one.
func (n *Node) want() (id uint64, came chan *transport.Conn) {
	p := &n.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted == nil {
		p.wanted = map[uint64]chan *transport.Conn{}
	}
	id, came = rand.Uint64(), make(chan *transport.Conn, 1)
	p.wanted[id] = came
	return id, came
}

// forget is called when nobody waits for the connection any more.
func (n *Node) forget(id uint64, came chan *transport.Conn) {
	n.places.mu.Lock()
	delete(n.places.wanted, id)
	n.places.mu.Unlock()
	select {
	case conn := <-came:
		conn.Close()
	default:
	}
}

// CameBack takes a connection that another process has dialled because this one
// had asked for it.
func (n *Node) CameBack(id uint64, conn *transport.Conn) {
	n.places.mu.Lock()
	defer n.places.mu.Unlock()
	select {
	case n.places.wanted[id] <- conn: // it has room for one
	default:
		go conn.Close() // it was given up, or has come twice
	}
}

// connect connects the process that has opened a stream to the listener that it
// wants, or leads it a step nearer.
func (n *Node) connect(s net.Conn, r *request) {
	defer s.Close()
	if r.To != n.Place {
		forward(s, n.toward(r.To), r)
		return
	}
	n.places.mu.Lock()
	l := n.places.listeners[r.Listener]
	n.places.mu.Unlock()
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

// dialBack dials the process that wants a connection, nil when it cannot be dialled.
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
	if conn.Send(ctx, wire.MustPack(wire.KindBack, wire.Back{ID: r.ID})...) != nil {
		conn.Close()
		return nil
	}
	return conn
}
