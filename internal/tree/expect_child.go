package tree

import (
	"context"
	"fmt"
	"os"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// dialback is how a process that is being started reports to this one: over a socket
// that it inherits, or by dialling an endpoint.
type dialback struct {
	socket   *os.File     // which the process inherits, nil if it dials
	endpoint string       // where it dials, "" if it inherits
	visits   <-chan visit // receives the process's visit, or why there is none
	stop     func()       // makes sure that no visit comes any more
}

// newDialback prepares for the process of that id.
func (n *Node) newDialback(ctx context.Context, id string) (*dialback, error) {
	network, err := n.Network(ctx)
	if err != nil {
		return nil, err
	}
	if !network.Inherit {
		l, visits, err := n.expect(network, id)
		if err != nil {
			return nil, err
		}
		w := &dialback{visits: visits, stop: func() { n.listener.forget(id) }}
		if w.endpoint, err = n.endpoint(ctx, l); err != nil {
			w.stop()
			return nil, err
		}
		return w, nil
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("making its socket: %w", err)
	}
	visits := make(chan visit, 1)
	go func() {
		opts := n.TransportOptions(false)
		opts.HandshakeTimeout = n.Config.StartTimeout // the program initialises itself before it speaks
		conn, err := transport.Open(ours, true, opts)
		if err != nil {
			visits <- visit{err: err}
			return
		}
		visits <- greet(conn)
	}()
	return &dialback{socket: theirs, visits: visits, stop: func() { ours.Close() }}, nil
}

// bootstrap adds what the child must know to report.
func (w *dialback) bootstrap(n *Node, boot *wire.Bootstrap) {
	if w.socket != nil {
		boot.FD, boot.Program = 3, os.Args[0]
		return
	}
	boot.Endpoint = w.endpoint
	boot.Credentials, _ = n.Credentials.MarshalBinary() // never fails
	boot.StartTimeout = n.Config.StartTimeout
	boot.Silence = n.Config.HeartbeatTimeout + childPatience*n.Config.HeartbeatInterval
}

// childPatience is how many heartbeats longer than its parent a child waits before
// it takes the other for lost: the parent's view of how the child ended counts.
const childPatience = 3

// launched is called when the child has inherited its socket, or never will.
func (w *dialback) launched() {
	if w.socket != nil {
		w.socket.Close()
	}
}

// meet waits until the process says hello, its job has ended (then ended is
// closed), or ctx ends.
func (w *dialback) meet(ctx context.Context, ended <-chan struct{}) (*transport.Conn, wire.Hello, error) {
	select {
	case v := <-w.visits:
		return v.conn, v.hello, v.err
	case <-ended:
		select {
		case v := <-w.visits: // the process ended after its hello
			return v.conn, v.hello, v.err
		default:
		}
	case <-ctx.Done():
	}
	return nil, wire.Hello{}, errNoHello
}

// close closes what was opened for a process that has not reported.
func (w *dialback) close() {
	w.stop()
	select {
	case v := <-w.visits:
		if v.err == nil {
			v.conn.Close()
		}
	default:
	}
}
