package tree

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// directTimeout bounds a try to dial another process; it has to leave time for
// the way along the tree.
const directTimeout = 3 * time.Second

// routes holds what connections along the tree need. Each process has a place in
// the tree: the root's is "", and each generation appends a number, as in "/2/1".
type routes struct {
	far     recent         // hosts that did not answer
	passing sync.WaitGroup // streams that are passed on

	mu        sync.Mutex
	listeners []*transport.Listener
	leaving   bool // this process is about to end: no stream is passed on any more
}

// pass returns whether a stream may be passed on. The caller calls passing.Done behind it.
func (r *routes) pass() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leaving {
		r.passing.Add(1)
	}
	return !r.leaving
}

// leave returns a channel that is closed once all streams are passed on. None begins any more.
func (r *routes) leave() (passed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = true
	done := make(chan struct{})
	go func() {
		r.passing.Wait()
		close(done)
	}()
	return done
}

// placed makes the endpoint of a listener of the run: the address to dial, and the
// place of its process in the tree, for processes that cannot dial it.
func placed(address, place string) string { return address + "@" + place }

func split(endpoint string) (address, place string, ok bool) { return strings.Cut(endpoint, "@") }

// keep remembers a listener, so that others can be connected to it along the
// tree.
func (n *Node) keep(l *transport.Listener) *transport.Listener {
	p := &n.routes
	p.mu.Lock()
	defer p.mu.Unlock()
	l.Label(placed("", n.Place))
	p.listeners = append(slices.DeleteFunc(p.listeners, (*transport.Listener).Closed), l)
	return l
}

// Dial connects to the listener of another process of the run. If that process
// cannot be dialled, the processes between this one and that one pass the bytes on.
// Both ends are authenticated in either case.
func (n *Node) Dial(ctx context.Context, endpoint string) (*transport.Conn, error) {
	address, place, elsewhere := split(endpoint)
	// A process on this machine may be stopped for as long as its user likes:
	// silence does not count, and its death is an end of file.
	unix := strings.HasPrefix(address, "unix:")
	opts := n.TransportOptions(unix)
	if unix || !elsewhere {
		return transport.Dial(ctx, address, n.Credentials, opts)
	}
	err := fmt.Errorf("fiber: %s cannot be dialled from here", hostOf(address))
	if !n.routes.far.has(hostOf(address)) {
		var conn *transport.Conn
		direct, cancel := context.WithTimeout(ctx, directTimeout)
		conn, err = transport.Dial(direct, address, n.Credentials, opts)
		cancel()
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		if !errors.Is(err, syscall.ECONNREFUSED) { // the host answers, and its address may have a new owner
			n.routes.far.add(hostOf(address))
		}
	}
	conn, along := n.dialAlong(ctx, address, place, opts)
	if along != nil {
		return nil, fmt.Errorf("%w; and along the tree: %w", err, along)
	}
	n.Log.Debug("fiber: reached along the tree", "endpoint", endpoint)
	return conn, nil
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(address, "tls:"))
	return host
}

// placeOf is the place of this node's child of that number.
func (n *Node) placeOf(serial int) string { return n.Place + "/" + strconv.Itoa(serial) }

// toward returns the session with the next process on the way to a place, nil when there is no way. over says that a process
// of this node's on the way, or there, has ended.
func (n *Node) toward(place string) (way *yamux.Session, over bool) {
	if !strings.HasPrefix(place, n.Place+"/") {
		if n.Parent == nil {
			return nil, false
		}
		return n.Parent.session(), false
	}
	for _, c := range n.Children() {
		if strings.HasPrefix(place+"/", c.place+"/") {
			return c.session(), false
		}
	}
	return nil, true
}

// A tunnel is a stream along the tree to a listener of another process. The two ends
// speak TLS and authenticate each other, so that no process in between can read it.

// dialAlong asks the process at a place to connect this one to its listener at
// address.
func (n *Node) dialAlong(ctx context.Context, address, place string, opts transport.Options) (*transport.Conn, error) {
	late, cancel := context.WithTimeout(ctx, answerTimeout) // a process on the way may have died with the request
	defer cancel()
	here, there := net.Pipe()
	go n.connect(there, &request{Do: doConnect, To: place, Listener: address})
	_, err := answered(late, here)
	if late.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the process did not answer within %v", answerTimeout)
	}
	if err != nil {
		return nil, err
	}
	return transport.Over(ctx, here, n.Credentials, opts)
}

// connect connects the process that has opened a stream to the listener that it
// wants, or forwards the stream a step nearer to it.
func (n *Node) connect(s net.Conn, r *request) {
	defer s.Close()
	if r.To != n.Place {
		way, over := n.toward(r.To)
		if over {
			wire.Write(s, reply{Over: true})
			return
		}
		n.forward(s, way, r)
		return
	}
	var l *transport.Listener
	n.routes.mu.Lock()
	for _, one := range n.routes.listeners {
		if one.Endpoint() == placed(r.Listener, n.Place) {
			l = one
		}
	}
	n.routes.mu.Unlock()
	if l == nil {
		return
	}
	nc, err := self.Of().Net.DialContext(context.Background(), l.Addr().Network(), l.Addr().String())
	if err != nil {
		return
	}
	wire.Write(s, reply{})
	n.splice(s, nc)
}
