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

// dialback is how a process that is being started reports to this one: by a socket
// that it inherits, or by dialling an endpoint.
type dialback struct {
	node *Node
	id   string // of the process

	ours   net.Conn // of a socket pair
	theirs *os.File

	endpoint string // else
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

// custody is how a process is looked after that reports in this way: one that inherits
// its socket is this process's own.
func (w *dialback) custody() *custody {
	if w.inherited() {
		return ownJobs
	}
	return engineJobs
}

// bootstrap adds what the child needs to know.
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

// childPatience is how many heartbeats a child waits longer than its parent
// before it takes the other for lost: the parent's word on how it ended counts.
const childPatience = 3

// socket is the child's end of a socket pair.
func (w *dialback) socket() backend.SyscallFile {
	if w.theirs == nil {
		return nil
	}
	return w.theirs
}

// launched is called when the child has what it inherits, or never will.
func (w *dialback) launched() {
	if w.theirs != nil {
		w.theirs.Close()
	}
}

// meet waits until the process says hello. Ended is closed when its job has
// ended.
func (w *dialback) meet(ctx context.Context, ended <-chan struct{}) (*transport.Conn, wire.Hello, error) {
	if !w.inherited() {
		defer w.node.listener.forget(w.id)
		select {
		case v := <-w.visits:
			return v.conn, v.hello, nil
		case <-ended:
			select {
			case v := <-w.visits: // it went after it had come
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

// close gives up what was opened for a process that has not come.
func (w *dialback) close() {
	if !w.inherited() {
		w.node.listener.forget(w.id)
		return
	}
	w.ours.Close()
}
