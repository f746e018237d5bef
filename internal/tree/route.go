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

// farTime is how long an address is not tried again that gave no answer.
const farTime = time.Minute

// routes is where this process is in the tree, and what it needs to be found
// there: a place is the root's, "", with a number for each generation, such as
// "/2/1".
type routes struct {
	mu        sync.Mutex
	below     map[string]*Child // by their places
	listeners map[string]*transport.Listener
	far       map[string]time.Time // hosts that gave no answer, and when
}

// placed is the endpoint of a listener of the run: how to dial it, and the place
// of its process in the tree, for those who cannot.
func placed(address, place string) string { return address + "@" + place }

func split(endpoint string) (address, place string, ok bool) { return strings.Cut(endpoint, "@") }

// keep remembers a listener, so that others can be led to it.
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

// Dial connects to what another process of the run listens at. Where it cannot
// be dialled, it is asked along the tree to dial this process; where it cannot
// do that either, the tree passes the bytes on. Both ends are authenticated all
// the same.
func (n *Node) Dial(ctx context.Context, endpoint string) (*transport.Conn, error) {
	address, place, elsewhere := split(endpoint)
	// A process on this machine may be stopped for as long as its user likes; its
	// death is an end of file.
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

// placeOf is the place of this node's child with a number.
func (n *Node) placeOf(serial int) string { return n.Place + "/" + strconv.Itoa(serial) }

// toward returns the streams by which a place is reached from here, nil when there
// is no such place.
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

// cutOff takes a child out of the tree of which nothing is heard any more. The
// streams through it end.
func (n *Node) cutOff(c *Child) {
	n.routes.mu.Lock()
	delete(n.routes.below, c.place)
	n.routes.mu.Unlock()
	c.streams.end()
}
