package launch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// directTimeout bounds a try to dial another process; it has to leave time for
// the way along the tree.
const directTimeout = 3 * time.Second

// farTime is how long an address is not tried again that gave no answer.
const farTime = time.Minute

// places is where this process is in the tree, and what it needs to be found
// there: a place is the root's, "", with a number for each generation, such as
// "/2/1".
type places struct {
	mu        sync.Mutex
	found     func() (endpoint string, err error) // where others find this process
	below     map[string]*Child                   // by their places
	listeners map[string]*transport.Listener
	far       map[string]time.Time // hosts that gave no answer, and when
	lastID    uint64
	tunnels   map[tunnelKey]*tunnel
}

// placed is the endpoint of a listener of the run: how to dial it, and the place
// of its process in the tree, for those who cannot.
func placed(address, place string) string { return address + "@" + place }

func split(endpoint string) (address, place string, ok bool) { return strings.Cut(endpoint, "@") }

// keep remembers a listener, so that others can be led to it.
func (n *Node) keep(l *transport.Listener) *transport.Listener {
	p := &n.places
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

// FoundAt says how it is found out where other processes find this one: for
// those that cannot be dialled from here, and are asked to dial themselves.
func (n *Node) FoundAt(endpoint func() (string, error)) {
	n.places.mu.Lock()
	defer n.places.mu.Unlock()
	n.places.found = endpoint
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(address, "tls:"))
	return host
}

func (n *Node) tooFar(address string) error {
	p := &n.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if since, ok := p.far[hostOf(address)]; ok && time.Since(since) < farTime {
		return fmt.Errorf("fiber: %s cannot be dialled from here", hostOf(address))
	}
	return nil
}

func (n *Node) noteFar(address string) {
	p := &n.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.far == nil {
		p.far = map[string]time.Time{}
	}
	p.far[hostOf(address)] = time.Now()
}

// placeOf is the place of this node's child with a number.
func (n *Node) placeOf(serial int) string { return n.Place + "/" + strconv.Itoa(serial) }

// next gives how a message for a place leaves this process; here says that it
// is for this one, and nil that there is no such place.
func (n *Node) next(to string) (post func(frames ...[]byte) error, here bool) {
	if to == n.Place {
		return nil, true
	}
	rest, below := strings.CutPrefix(to, n.Place+"/")
	if !below {
		if n.Parent == nil {
			return nil, false
		}
		return n.Parent.Post, false
	}
	child, _, _ := strings.Cut(rest, "/")
	n.places.mu.Lock()
	c := n.places.below[n.Place+"/"+child]
	n.places.mu.Unlock()
	if c == nil {
		return nil, false
	}
	return c.Post, false
}

// cutOff takes a child out of the tree of which nothing is heard any more. The
// tunnels to it, and to who is below it, end: what went there last may be lost.
func (n *Node) cutOff(c *Child) {
	p := &n.places
	p.mu.Lock()
	delete(p.below, c.place)
	var lost []*tunnel
	for key, t := range p.tunnels {
		if key.place == c.place || strings.HasPrefix(key.place, c.place+"/") {
			lost = append(lost, t)
		}
	}
	p.mu.Unlock()
	for _, t := range lost {
		t.end()
	}
}

// pass brings a message of a tunnel to its place, or a step nearer. It comes
// from a child, which speaks for itself and those below it, or from above, "".
// Who sends something to where nobody is hears that the tunnel has ended.
func (n *Node) pass(frames [][]byte, child string) error {
	var t wire.Tunnel
	if err := t.Unpack(frames); err != nil {
		return err
	}
	if !within(t.From, child) {
		return fmt.Errorf("%w: a tunnel from %q, by way of %q", wire.ErrMalformed, t.From, child)
	}
	n.route(&t, frames)
	return nil
}

func (n *Node) route(t *wire.Tunnel, frames [][]byte) {
	post, here := n.next(t.To)
	switch {
	case here:
		n.arrive(t, frames[1:])
	case post != nil && post(frames...) == nil:
	case t.Step != wire.TunnelClose:
		n.tell(&wire.Tunnel{To: t.From, From: t.To, ID: t.ID, Step: wire.TunnelClose, Opener: !t.Opener})
	}
}

// tell sends a message of a tunnel.
func (n *Node) tell(t *wire.Tunnel, data ...[]byte) { n.route(t, t.Pack(data...)) }
