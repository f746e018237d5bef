package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

const (
	// tunnelWindow is how many bytes of a tunnel may be under way.
	tunnelWindow = 1 << 20
	tunnelChunk  = 32 << 10
)

// tunnelKey tells a process's tunnels apart.
type tunnelKey struct {
	place string // of the other end
	id    uint64
	mine  bool // this process wanted the connection
}

// tunnel is one end of a connection whose bytes go along the tree. What they
// are, both ends' TLS and its authentication, no process in between can tell.
type tunnel struct {
	node *Node
	key  tunnelKey

	answered chan struct{}        // of mine: closed when it is known what became of it
	back     chan *transport.Conn // of mine: the connection that was dialled from the other side
	wake     chan struct{}        // has one in it when something may have changed for the sender
	arrived  chan struct{}        // and here for the receiver

	mu     sync.Mutex
	known  bool // answered is closed
	nc     net.Conn
	in     [][]byte
	credit int // bytes that may be sent
	closed bool
}

func (n *Node) newTunnel(key tunnelKey) *tunnel {
	t := &tunnel{node: n, key: key, answered: make(chan struct{}), back: make(chan *transport.Conn, 1),
		wake: make(chan struct{}, 1), arrived: make(chan struct{}, 1)}
	p := &n.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tunnels == nil {
		p.tunnels = map[tunnelKey]*tunnel{}
	}
	if key.mine {
		p.lastID++
		t.key.id = p.lastID
	}
	p.tunnels[t.key] = t
	return t
}

// dialAlong has the process at a place connect this one to its listener at
// address.
func (n *Node) dialAlong(ctx context.Context, address, place string, opts transport.Options) (*transport.Conn, error) {
	back := ""
	n.places.mu.Lock()
	found := n.places.found
	n.places.mu.Unlock()
	if found != nil {
		if endpoint, err := found(); err == nil {
			back, _, _ = split(endpoint)
		}
	}
	t := n.newTunnel(tunnelKey{place: place, mine: true})
	t.tell(&wire.Tunnel{Step: wire.TunnelOpen, N: tunnelWindow, Target: address, Back: back})
	late := time.NewTimer(answerTimeout) // somebody on the way may have died with the question
	defer late.Stop()
	select {
	case conn := <-t.back:
		t.end()
		return conn, nil
	case <-t.answered:
	case <-ctx.Done():
		t.giveUp()
		return nil, ctx.Err()
	case <-late.C:
		t.giveUp()
		return nil, fmt.Errorf("the process was asked and gave no answer for %v", answerTimeout)
	}
	if t.over() {
		if conn := t.cameBack(); conn != nil {
			return conn, nil
		}
		return nil, errors.New("the process is not there any more")
	}
	here, there := net.Pipe()
	t.join(there)
	conn, err := transport.Over(ctx, here, n.Credentials, opts)
	if err != nil {
		t.close()
	}
	return conn, err
}

// CameBack takes a connection that another process has dialled because this one
// had asked for it.
func (n *Node) CameBack(id uint64, conn *transport.Conn) {
	p := &n.places
	p.mu.Lock()
	var t *tunnel
	for key, mine := range p.tunnels {
		if key.mine && key.id == id {
			t = mine
		}
	}
	if t != nil {
		select {
		case t.back <- conn:
			conn = nil
		default:
		}
	}
	p.mu.Unlock()
	if conn != nil {
		conn.Close() // it was given up, or has come twice
	}
}

// giveUp ends a tunnel of mine that nobody waits for any more.
func (t *tunnel) giveUp() {
	t.close()
	if conn := t.cameBack(); conn != nil {
		conn.Close()
	}
}

// cameBack gives the connection that has come back before the tunnel's end, and
// has none come any more.
func (t *tunnel) cameBack() *transport.Conn {
	t.forget()
	select {
	case conn := <-t.back:
		return conn
	default:
		return nil
	}
}

// forget has CameBack, and messages, find the tunnel no more.
func (t *tunnel) forget() {
	p := &t.node.places
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tunnels, t.key)
}

// arrive takes a message of a tunnel that is for this process.
func (n *Node) arrive(m *wire.Tunnel, data [][]byte) {
	p := &n.places
	p.mu.Lock()
	t := p.tunnels[tunnelKey{m.From, m.ID, !m.Opener}]
	p.mu.Unlock()
	if t == nil {
		switch {
		case m.Step == wire.TunnelOpen && m.Opener:
			go n.open(m)
		case m.Step != wire.TunnelClose:
			n.tell(&wire.Tunnel{To: m.From, From: n.Place, ID: m.ID, Step: wire.TunnelClose, Opener: !m.Opener})
		}
		return
	}
	switch m.Step {
	case wire.TunnelData:
		t.take(data)
	case wire.TunnelGrant:
		t.grant(int(m.N))
	case wire.TunnelClose:
		t.end()
	case wire.TunnelBack:
		// The connection says so itself.
	}
}

// open connects another process, which could not dial this one, to a listener
// here.
func (n *Node) open(m *wire.Tunnel) {
	t := n.newTunnel(tunnelKey{place: m.From, id: m.ID})
	n.places.mu.Lock()
	l := n.places.listeners[m.Target]
	n.places.mu.Unlock()
	if l == nil {
		t.close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), directTimeout)
	defer cancel()
	if m.Back != "" && n.tooFar(m.Back) == nil {
		conn, err := transport.Dial(ctx, m.Back, n.Credentials, n.TransportOptions(false))
		if err == nil {
			if err = conn.Send(ctx, wire.MustPack(wire.KindBack, wire.Back{ID: m.ID})...); err != nil {
				conn.Close()
				t.close()
				return
			}
			t.end()
			l.Deliver(conn)
			return
		}
		n.noteFar(m.Back)
	}
	var d net.Dialer
	nc, err := d.DialContext(context.Background(), l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.close()
		return
	}
	t.credit = int(m.N)
	t.join(nc)
	t.tell(&wire.Tunnel{Step: wire.TunnelGrant, N: tunnelWindow})
}

func (t *tunnel) tell(m *wire.Tunnel, data ...[]byte) {
	m.To, m.From, m.ID, m.Opener = t.key.place, t.node.Place, t.key.id, t.key.mine
	t.node.tell(m, data...)
}

// join joins a connection of this process to the tunnel.
func (t *tunnel) join(nc net.Conn) {
	t.mu.Lock()
	t.nc = nc
	closed := t.closed
	t.mu.Unlock()
	if closed {
		nc.Close()
		return
	}
	go t.send(nc)
	go t.receive(nc)
}

// send sends what the connection gives, as far as the other end has room.
func (t *tunnel) send(nc net.Conn) {
	defer t.close()
	for {
		room := t.room()
		if room == 0 {
			return
		}
		buf := make([]byte, min(room, tunnelChunk))
		n, err := nc.Read(buf)
		if n > 0 {
			t.mu.Lock()
			t.credit -= n
			t.mu.Unlock()
			t.tell(&wire.Tunnel{Step: wire.TunnelData}, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// room waits until something may be sent; 0 means never.
func (t *tunnel) room() int {
	for {
		t.mu.Lock()
		room, closed := t.credit, t.closed
		t.mu.Unlock()
		switch {
		case closed:
			return 0
		case room > 0:
			return room
		}
		<-t.wake
	}
}

// receive gives the connection what comes.
func (t *tunnel) receive(nc net.Conn) {
	defer nc.Close()
	for {
		t.mu.Lock()
		in, closed := t.in, t.closed
		t.in = nil
		t.mu.Unlock()
		size := 0
		for _, b := range in {
			size += len(b)
			if _, err := nc.Write(b); err != nil {
				t.close()
				return
			}
		}
		switch {
		case size > 0:
			t.tell(&wire.Tunnel{Step: wire.TunnelGrant, N: uint64(size)})
		case closed:
			return
		default:
			<-t.arrived
		}
	}
}

func (t *tunnel) take(data [][]byte) {
	t.mu.Lock()
	t.in = append(t.in, data...)
	t.mu.Unlock()
	signal(t.arrived)
}

func (t *tunnel) grant(n int) {
	t.mu.Lock()
	t.credit += n
	t.answer()
	t.mu.Unlock()
	signal(t.wake)
}

// answer says that it is known what became of the tunnel. The lock is held.
func (t *tunnel) answer() {
	if !t.known {
		t.known = true
		close(t.answered)
	}
}

func (t *tunnel) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// close ends the tunnel at both ends.
func (t *tunnel) close() {
	if t.end() {
		t.tell(&wire.Tunnel{Step: wire.TunnelClose})
	}
}

// end ends the tunnel here; it says whether it had not ended. What has arrived
// still goes to the connection.
func (t *tunnel) end() bool {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return false
	}
	t.closed = true
	t.answer()
	nc := t.nc
	t.mu.Unlock()
	t.forget()
	signal(t.wake)
	signal(t.arrived)
	if nc != nil {
		nc.SetReadDeadline(time.Now()) // for the sender
	}
	return true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
