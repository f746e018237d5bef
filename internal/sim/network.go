package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// network connects the simulated machines. Each direction between two machines is a link of its own.
type network struct {
	tls bool

	mu        sync.Mutex
	plan      Plan
	rand      *rand.Rand          // of where processes start, and how long that takes
	links     map[[2]string]*link // by the machines' names: from, to
	listeners map[string]*listener
	ports     int
	conns     map[*conn]struct{} // open ends
	machines  []*machine
	changed   chan struct{} // closed when a machine comes up
}

func newNetwork(plan Plan) *network {
	n := &network{tls: plan.TLS, plan: plan, rand: plan.random(1), links: map[[2]string]*link{}, listeners: map[string]*listener{},
		conns: map[*conn]struct{}{}, changed: make(chan struct{})}
	for i := range plan.Machines {
		n.machines = append(n.machines, &machine{name: fmt.Sprint("machine", i)})
	}
	return n
}

// link is a direction between two machines.
type link struct {
	from, to, name string
	latency        time.Duration
	jitter         time.Duration
	rate           float64 // seconds for a byte

	mu   sync.Mutex
	rand *rand.Rand
	cut  time.Time // nothing gets through before
	slow time.Time // a thousand times slower before
}

// between returns the link from one machine to another.
func (n *network) between(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{from, to}
	l := n.links[key]
	if l == nil {
		name := from + " to " + to
		hash := fnv.New64()
		hash.Write([]byte(name))
		l = &link{from: from, to: to, name: name, latency: 10 * time.Microsecond, jitter: 20 * time.Microsecond, rate: 1e-9, rand: n.plan.random(hash.Sum64())}
		if from != to {
			l.latency += time.Duration(l.rand.IntN(500)) * time.Microsecond
			l.jitter += time.Duration(l.rand.IntN(300)) * time.Microsecond
			l.rate = 1e-8
		}
		n.links[key] = l
	}
	return l
}

// arrival returns when bytes arrive that are written now, not before those written last.
func (l *link) arrival(last time.Time, bytes int) time.Time {
	if l.from == Inline {
		return last // at once
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, takes := time.Now(), time.Duration(float64(bytes)*l.rate*float64(time.Second))
	if l.slow.After(at) {
		takes = min(1000*takes, l.slow.Sub(at))
	}
	if l.cut.After(at) {
		at = l.cut
	}
	at = at.Add(l.latency + time.Duration(l.rand.Int64N(int64(l.jitter))) + takes)
	if at.Before(last) {
		at = last
	}
	return at
}

// wire is one direction of a process's traffic, which has a rate.
type wire struct {
	mu    sync.Mutex
	free  time.Time // when all that was written before is through
	bytes int64
}

// pass returns when bytes are through that come at a time, or from then on.
func (w *wire) pass(at time.Time, bytes, rate int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += int64(bytes)
	if rate == 0 {
		return at
	}
	if w.free.Before(at) {
		w.free = at
	}
	w.free = w.free.Add(time.Duration(bytes) * time.Second / time.Duration(rate))
	return w.free
}

// Sent returns how many bytes the process has sent.
func (p *Process) Sent() int64 {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.bytes
}

// cutFor lets nothing through for a while.
func (l *link) cutFor(d time.Duration) { l.until(&l.cut, d) }

// slowFor lets next to nothing through for a while.
func (l *link) slowFor(d time.Duration) { l.until(&l.slow, d) }

func (l *link) until(t *time.Time, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := time.Now().Add(d); t.Before(end) {
		*t = end
	}
}

// place chooses a machine for a process, and says how long its start takes, up to most.
func (n *network) place(most time.Duration) (*machine, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var up []*machine
	for _, m := range n.machines {
		if !m.down {
			up = append(up, m)
		}
	}
	m := up[n.rand.IntN(len(up))]
	if m.name == Inline {
		return m, 0
	}
	return m, time.Duration(n.rand.Int64N(int64(most)))
}

// setDown sets whether a machine is down, and returns false if it is so already. When it comes up, connections of before are reset.
func (n *network) setDown(m *machine, down bool) bool {
	n.mu.Lock()
	if m.down == down {
		n.mu.Unlock()
		return false
	}
	m.down = down
	var old []*conn
	if !down {
		old = n.ends(func(c *conn) bool { return c.owner.machine == m && c.owner.dead })
		close(n.changed)
		n.changed = make(chan struct{})
	}
	n.mu.Unlock()
	for _, c := range old {
		c.close(syscall.ECONNRESET)
	}
	return true
}

func (n *network) isDown(m *machine) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return m.down
}

// ends returns open ends of connections, the oldest first. The lock is held.
func (n *network) ends(which func(*conn) bool) (ends []*conn) {
	for c := range n.conns {
		if which(c) {
			ends = append(ends, c)
		}
	}
	slices.SortFunc(ends, func(a, b *conn) int { return a.serial - b.serial })
	return ends
}

// reset breaks a connection.
func (n *network) reset(which int) string {
	n.mu.Lock()
	ends := n.ends(func(c *conn) bool { return !c.owner.dead })
	n.mu.Unlock()
	if len(ends) == 0 {
		return ""
	}
	c := ends[which%len(ends)]
	c.out.end(syscall.ECONNRESET)
	c.in.end(syscall.ECONNRESET)
	return fmt.Sprintf("%s of %s to %s", c.from, c.owner.Name, c.to)
}

// host is an address of a machine.
type host string

func (h host) Network() string { return "tcp" }
func (h host) String() string  { return string(h) }

// listener is a simulated socket that listens.
type listener struct {
	owner *Process
	addr  host
	came  chan *conn // has room for a backlog
	done  chan struct{}
	once  sync.Once
}

const backlog = 4096

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.came:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		n := l.owner.run.net
		n.mu.Lock()
		delete(n.listeners, string(l.addr))
		n.mu.Unlock()
		close(l.done)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// sockets is the network as a process uses it.
type sockets struct{ p *Process }

func (s sockets) Listen(_ context.Context, network, address string) (net.Listener, error) {
	if network != "tcp" {
		return nil, fmt.Errorf("sim: a %s socket", network)
	}
	n := s.p.run.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.p.dead {
		return nil, net.ErrClosed
	}
	name, port, _ := net.SplitHostPort(address)
	if name == "" {
		name = s.p.machine.name
	}
	if port == "0" {
		n.ports++
		port = strconv.Itoa(n.ports)
	}
	l := &listener{owner: s.p, addr: host(net.JoinHostPort(name, port)), came: make(chan *conn, backlog), done: make(chan struct{})}
	n.listeners[string(l.addr)] = l
	s.p.listeners = append(s.p.listeners, l)
	return l, nil
}

func (s sockets) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := s.dial(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return c, nil
}

func (s sockets) dial(ctx context.Context, address string) (*conn, error) {
	name, _, _ := net.SplitHostPort(address)
	n := s.p.run.net
	there, back := n.between(s.p.machine.name, name), n.between(name, s.p.machine.name)
	// TCP's handshake takes a round trip, and longer while one of the links is cut.
	for _, l := range []*link{there, back} {
		t := time.NewTimer(time.Until(l.arrival(time.Time{}, 0)))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.machines {
		for m.name == name && m.down && ctx.Err() == nil {
			changed := n.changed
			n.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
			}
			n.mu.Lock()
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := n.listeners[address]
	if l == nil || s.p.dead || l.owner.dead {
		return nil, syscall.ECONNREFUSED
	}
	n.ports++
	here := host(net.JoinHostPort(s.p.machine.name, strconv.Itoa(n.ports)))
	up, down := newStream(there, s.p, l.owner), newStream(back, l.owner, s.p)
	mine := &conn{net: n, owner: s.p, from: here, to: l.addr, in: down, out: up, serial: 2 * n.ports}
	theirs := &conn{net: n, owner: l.owner, from: l.addr, to: here, in: up, out: down, serial: 2*n.ports + 1}
	select {
	case l.came <- theirs:
	default:
		return nil, syscall.ECONNREFUSED
	}
	n.conns[mine], n.conns[theirs] = struct{}{}, struct{}{}
	return mine, nil
}

func (n *network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// hangUp ends what a process that has ended has open, as the system does, or as a machine that has failed does not.
func (n *network) hangUp(p *Process, how error) {
	n.mu.Lock()
	p.dead = true
	failed := p.machine.down
	conns := n.ends(func(c *conn) bool { return c.owner == p })
	listeners := p.listeners
	p.listeners = nil
	n.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		if failed {
			c.vanish()
		} else {
			c.close(how)
		}
	}
}
