package tree

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/transport"
)

// directTimeout bounds a try to dial another process; it has to leave time for
// the way along the tree.
const directTimeout = 3 * time.Second

// farTime is how long a host that did not answer is not dialled again.
const farTime = time.Minute

// routes holds what connections along the tree need. Each process has a place in
// the tree: the root's is "", and each generation appends a number, as in "/2/1".
type routes struct {
	mu        sync.Mutex
	below     map[string]*Child // by their places
	listeners map[string]*transport.Listener
	far       map[string]time.Time // hosts that did not answer, and since when
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
	if p.listeners == nil {
		p.listeners = map[string]*transport.Listener{}
	}
	for endpoint, old := range p.listeners {
		if old.Closed() {
			delete(p.listeners, endpoint)
		}
	}
	p.listeners[l.Endpoint()] = l
	l.Label(placed("", n.Place))
	return l
}

// Dial connects to the listener of another process of the run. If that process
// cannot be dialled, it is asked along the tree to dial this one. If it cannot do
// that either, the processes on the way pass the bytes on. Both ends are
// authenticated in all three cases.
func (n *Node) Dial(ctx context.Context, endpoint string) (*transport.Conn, error) {
	address, place, elsewhere := split(endpoint)
	// A process on this machine may be stopped for as long as its user likes:
	// silence does not count, and its death is an end of file.
	unix := strings.HasPrefix(address, "unix:")
	opts := n.TransportOptions(unix)
	if unix || !elsewhere {
		return transport.Dial(ctx, address, n.Credentials, opts)
	}
	err := n.tooFar(address)
	if err == nil {
		var conn *transport.Conn
		direct, cancel := context.WithTimeout(ctx, directTimeout)
		conn, err = transport.Dial(direct, address, n.Credentials, opts)
		cancel()
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		n.noteFar(address)
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

func (n *Node) tooFar(address string) error {
	p := &n.routes
	p.mu.Lock()
	defer p.mu.Unlock()
	if since, ok := p.far[hostOf(address)]; ok && time.Since(since) < farTime {
		return fmt.Errorf("fiber: %s cannot be dialled from here", hostOf(address))
	}
	return nil
}

func (n *Node) noteFar(address string) {
	p := &n.routes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.far == nil {
		p.far = map[string]time.Time{}
	}
	p.far[hostOf(address)] = time.Now()
}

// placeOf is the place of this node's child of that number.
func (n *Node) placeOf(serial int) string { return n.Place + "/" + strconv.Itoa(serial) }

// toward returns the session with the next process on the way to a place, nil when
// there is no way.
func (n *Node) toward(place string) *yamux.Session {
	rest, below := strings.CutPrefix(place, n.Place+"/")
	if !below {
		if n.Parent == nil {
			return nil
		}
		return n.Parent.session()
	}
	child, _, _ := strings.Cut(rest, "/")
	n.routes.mu.Lock()
	c := n.routes.below[n.Place+"/"+child]
	n.routes.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.session()
}

// cutOff removes a child whose connection has ended from the routes. The streams
// through it end.
func (n *Node) cutOff(c *Child) {
	n.routes.mu.Lock()
	delete(n.routes.below, c.place)
	n.routes.mu.Unlock()
	c.streams.end()
}
