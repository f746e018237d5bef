package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/shm"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

const (
	// helloTimeout bounds the wait for the hello of a process that has dialled.
	helloTimeout = 10 * time.Second
	// networkTimeout bounds asking the backend where this process is reached, and for a way to it.
	networkTimeout = 10 * time.Second
)

// listener is how processes elsewhere reach this one: the network, once the
// backend has named it, and the listener at which children report.
type listener struct {
	network lock.Once[backend.Network]
	forward lock.Once[string] // the endpoint that children dial

	mu       sync.Mutex
	listener *transport.Listener
	closed   bool                  // for good
	waiting  map[string]chan visit // starts, and readers of outputs, by the id that their child, or its init, will send
	closing  context.CancelFunc    // gives up the visits
	visits   sync.WaitGroup
}

// visit is a process that has reported.
type visit struct {
	conn  *transport.Conn // nil after an error
	hello wire.Hello
	err   error
}

// maxHello is how many bytes a hello has at most; with another build it carries the
// table of all functions.
const maxHello = 16 << 20

// greet reads the hello of a process on a new connection.
func greet(conn *transport.Conn) (v visit) {
	conn.LimitMessages(maxHello)
	defer conn.LimitMessages(0)
	frames, err := conn.Recv()
	if err == nil && wire.KindOf(frames) != wire.KindHello {
		err = fmt.Errorf("%w: %v instead of a hello", wire.ErrMalformed, wire.KindOf(frames))
	}
	if err == nil {
		err = wire.Unpack(frames, &v.hello)
	}
	if err != nil {
		conn.Close()
		return visit{err: err}
	}
	v.conn = conn
	return v
}

// Network returns how other processes of the run reach this one. It asks the
// backend, and keeps the first answer. While one caller asks, the others wait; if
// that caller's ctx ends, the next one asks.
func (n *Node) Network(ctx context.Context) (backend.Network, error) {
	network, err := n.listener.network.Make(ctx, func() (*backend.Network, error) {
		ctx, cancel := context.WithTimeout(ctx, networkTimeout)
		defer cancel()
		network, err := n.Backend.Network(ctx)
		return &network, err
	})
	if err != nil {
		return backend.Network{}, err
	}
	return *network, nil
}

// Listen opens a listener that the run's other processes can dial at its
// Endpoint. It is a unix socket in the run's directory if children inherit their
// connection, and otherwise TLS at the address by which others reach this
// process. Processes that cannot dial it are connected along the tree: see Dial.
// The caller closes it. It blocks while the backend is asked for that address, or
// until ctx ends.
func (n *Node) Listen(ctx context.Context) (*transport.Listener, error) {
	n.sweepOnce()
	network, err := n.Network(ctx)
	if err != nil {
		return nil, err
	}
	opts := n.TransportOptions(network.Inherit)
	if !network.Inherit {
		l, err := n.listenTLS(network, opts)
		if err != nil {
			return nil, err
		}
		return n.keep(l), nil
	}
	for {
		if err := n.makeDirectory(); err != nil {
			return nil, err
		}
		l, err := transport.ListenUnix(n.Directory(), n.Credentials, opts)
		if !errors.Is(err, os.ErrNotExist) { // else another run has swept the empty directory away
			return l, err
		}
	}
}

// Directory is the run's directory, which holds the unix sockets of all its
// processes. The root removes it at the end.
func (n *Node) Directory() string { return filepath.Join(n.Config.RuntimeDir, "fiber-"+n.Run) }

func (n *Node) makeDirectory() error {
	if err := os.Mkdir(n.Directory(), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// newSegments returns a store for values that this process shares with others of its machine, which can enter the run's
// directory, or nil if there are none.
func (n *Node) newSegments() *shm.Store {
	if self.Of().Disk != nil { // a simulated process
		return nil
	}
	return shm.New(shm.Options{Name: "fiber-" + n.Run, Root: n.Directory(), Limit: n.ShareMemory, Temp: os.TempDir(),
		Dir: func(ctx context.Context) (string, error) {
			network, err := n.Network(ctx)
			if err != nil || !network.Inherit && !network.Shares {
				return "", err
			}
			return n.Directory(), n.makeDirectory()
		}})
}

// ShareMemory returns how many bytes of memory the shared values in this process may have, 0 for any number.
func (n *Node) ShareMemory() int64 {
	return cmp.Or(int64(n.Config.ShareMemory), n.machineMemory()/sharedPart)
}

// sharedPart is the part of a machine's memory that shared values may have unless Config.ShareMemory says otherwise.
const sharedPart = 3

func (n *Node) listenTLS(network backend.Network, opts transport.Options) (*transport.Listener, error) {
	l, err := transport.ListenTLS(net.JoinHostPort(network.Bind, "0"), n.Credentials, opts)
	if err != nil {
		return nil, fmt.Errorf("fiber: listening for other processes of the run: %w", err)
	}
	l.Advertise(network.Host)
	return l, nil
}

// expect opens the listener for children, if necessary, and lets in the process
// of that id. It returns the listener, and a channel that receives the process's
// visit.
func (n *Node) expect(network backend.Network, id string) (l *transport.Listener, visits <-chan visit, err error) {
	r := &n.listener
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, ErrShutdown
	}
	if r.listener == nil {
		l, err := n.listenTLS(network, n.TransportOptions(false))
		if err != nil {
			return nil, nil, err
		}
		open, closing := context.WithCancel(context.Background())
		r.listener, r.waiting, r.closing = l, map[string]chan visit{}, closing
		r.visits.Go(func() { r.accept(open, l) })
	}
	came := make(chan visit, 1)
	r.waiting[id] = came
	return r.listener, came, nil
}

// endpoint returns where children dial the listener for them.
func (n *Node) endpoint(ctx context.Context, l *transport.Listener) (string, error) {
	b, forwards := n.Backend.(backend.Forwarder)
	if !forwards {
		return l.Endpoint(), nil
	}
	endpoint, err := n.listener.forward.Make(ctx, func() (*string, error) {
		ctx, cancel := context.WithTimeout(ctx, networkTimeout)
		defer cancel()
		address, err := b.Forward(ctx, l.Addr())
		address = "tls:" + address
		return &address, err
	})
	if err != nil {
		return "", err
	}
	return *endpoint, nil
}

// forget stops expecting a process.
func (r *listener) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, id)
}

func (r *listener) accept(open context.Context, l *transport.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r.visits.Go(func() { r.receive(open, conn) })
	}
}

// receive hands a connection to the start that waits for its process, once, and
// closes all others. Only the process and its parent know its id.
func (r *listener) receive(open context.Context, conn *transport.Conn) {
	within, cancel := context.WithTimeout(open, helloTimeout)
	defer cancel()
	inTime := context.AfterFunc(within, func() { conn.Close() })
	v := greet(conn)
	if !inTime() || v.err != nil {
		conn.Close()
		return
	}
	r.mu.Lock()
	came := r.waiting[v.hello.Process]
	if came != nil {
		delete(r.waiting, v.hello.Process)
		came <- v // there is room for one
	}
	r.mu.Unlock()
	if came == nil {
		conn.Close()
	}
}

// close closes the listener for children, and the connections on which no
// process has reported.
func (r *listener) close() {
	r.mu.Lock()
	l := r.listener
	r.listener, r.closed = nil, true
	r.mu.Unlock()
	if l != nil {
		r.closing()
		l.Close()
		r.visits.Wait()
	}
}
