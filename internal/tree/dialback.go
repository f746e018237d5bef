package tree

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// dialback is how a process that is being started reports to this one: over a socket
// that it inherits, or by dialling an endpoint.
type dialback struct {
	node *Node
	id   string // of the process

	ours   net.Conn // this process's end of a socket pair, nil without one
	theirs *os.File

	endpoint string // where the process dials, without a socket pair
	visits   <-chan visit
}

func (n *Node) newDialback(ctx context.Context, id string) (w *dialback, err error) {
	w = &dialback{node: n, id: id}
	network, err := n.Network(ctx)
	if err != nil {
		return nil, err
	}
	if network.Inherit {
		w.ours, w.theirs, err = socketPair()
		if err != nil {
			return nil, fmt.Errorf("making its socket: %w", err)
		}
		return w, nil
	}
	w.endpoint, w.visits, err = n.expect(network, id)
	return w, err
}

func (w *dialback) inherited() bool { return w.ours != nil }

// custody returns how the process is watched: if it inherits a socket, this process
// runs it itself.
func (w *dialback) custody() *custody {
	if w.inherited() {
		return ownJobs
	}
	return engineJobs
}

// bootstrap adds what the child must know to report.
func (w *dialback) bootstrap(boot *wire.Bootstrap) error {
	if w.inherited() {
		boot.FD, boot.Program = 3, os.Args[0]
		return nil
	}
	credentials, err := w.node.Credentials.MarshalBinary()
	boot.Endpoint, boot.Credentials = w.endpoint, credentials
	c := &w.node.Config
	boot.StartTimeout = c.StartTimeout
	boot.Silence = c.HeartbeatTimeout + childPatience*c.HeartbeatInterval
	return err
}

// childPatience is how many heartbeats longer than its parent a child waits before
// it takes the other for lost: the parent's view of how the child ended counts.
const childPatience = 3

// socket is the child's end of a socket pair.
func (w *dialback) socket() backend.SyscallFile {
	if w.theirs == nil {
		return nil
	}
	return w.theirs
}

// launched is called when the child has inherited its socket, or never will.
func (w *dialback) launched() {
	if w.theirs != nil {
		w.theirs.Close()
	}
}

// meet waits until the process says hello, its job has ended (then ended is
// closed), or ctx ends.
func (w *dialback) meet(ctx context.Context, ended <-chan struct{}) (*transport.Conn, wire.Hello, error) {
	if !w.inherited() {
		defer w.node.listener.forget(w.id)
		select {
		case v := <-w.visits:
			return v.conn, v.hello, nil
		case <-ended:
			select {
			case v := <-w.visits: // the process ended after its hello
				return v.conn, v.hello, nil
			default:
			}
			return nil, wire.Hello{}, errNoHello
		case <-ctx.Done():
			return nil, wire.Hello{}, errNoHello
		}
	}
	var hello wire.Hello
	opts := w.node.TransportOptions(false)
	opts.HandshakeTimeout = w.node.Config.StartTimeout // the program initialises itself before it speaks
	conn, err := transport.Open(w.ours, true, opts)
	if err != nil {
		return nil, hello, err
	}
	frames, err := conn.Recv()
	if err == nil {
		err = wire.Unpack(frames, &hello)
	}
	if err == nil && hello.Process != w.id {
		err = fmt.Errorf("%w: a hello of process %q, not %q", wire.ErrMalformed, hello.Process, w.id)
	}
	if err != nil {
		conn.Close()
		return nil, hello, err
	}
	return conn, hello, nil
}

// close closes what was opened for a process that has not reported.
func (w *dialback) close() {
	if !w.inherited() {
		w.node.listener.forget(w.id)
		return
	}
	w.ours.Close()
}
