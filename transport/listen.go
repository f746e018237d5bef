package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxHandshakes is how many are in flight on one listener.
const maxHandshakes = 256

// Listener accepts authenticated connections of its run. Handshakes go on side
// by side and apart from the accept loop, at most 256 at a time, each bounded by
// Options.HandshakeTimeout. When one more comes, the oldest of the strangers from
// the address with the most of them is closed at once; one of ours dials again.
// So strangers neither cost much nor keep others out.
type Listener struct {
	l        net.Listener
	endpoint string
	wrap     func(net.Conn) net.Conn
	remove   func() error // what is to be removed at the end
	cred     *Credentials
	opts     Options

	ready  chan *Conn
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once

	mu       sync.Mutex
	inFlight []*handshake  // oldest first
	left     chan struct{} // something has left inFlight
}

// handshake is a connection that is not authenticated yet.
type handshake struct {
	socket net.Conn
	from   netip.Prefix
	known  bool // its socket or its certificate is of the run; under the listener's lock
}

// source is where a connection comes from: an address, or the network of 64 bits
// which a host with IPv6 has to itself.
func source(nc net.Conn) netip.Prefix {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	from, _ := ip.WithZone("").Prefix(bits)
	return from
}

func newListener(l net.Listener, endpoint string, wrap func(net.Conn) net.Conn, cred *Credentials, opts Options) *Listener {
	ln := &Listener{
		l: l, endpoint: endpoint, wrap: wrap, remove: func() error { return nil },
		cred: cred, opts: opts.withDefaults(),
		ready: make(chan *Conn),
		left:  make(chan struct{}, 1),
	}
	ln.ctx, ln.cancel = context.WithCancel(context.Background())
	ln.tasks.Go(ln.loop)
	return ln
}

// ListenTLS listens on a TCP address, "host:port" with port 0 for any. Only TLS
// 1.3 is spoken, and each end must show a certificate of the run.
func ListenTLS(address string, cred *Credentials, opts Options) (*Listener, error) {
	config, err := cred.tlsConfig()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	wrap := func(nc net.Conn) net.Conn { return tls.Server(&corked{Conn: detachableOf(nc)}, config) }
	return newListener(l, "tls:"+l.Addr().String(), wrap, cred, opts), nil
}

// Endpoint is what Dial takes. A TLS listener on all addresses names the
// unspecified one, which only processes on this host can dial.
func (l *Listener) Endpoint() string { return l.endpoint }

// Advertise has the endpoint of a TLS listener name another host, by which
// others reach it. It is called before anybody asks for the endpoint.
func (l *Listener) Advertise(host string) {
	_, port, _ := net.SplitHostPort(l.l.Addr().String())
	l.endpoint = "tls:" + net.JoinHostPort(host, port)
}

// Label puts something behind the endpoint that is for others than Dial. It is
// called before anybody asks for the endpoint.
func (l *Listener) Label(label string) { l.endpoint += label }

// Deliver has Accept return a connection of the run that was made otherwise.
func (l *Listener) Deliver(c *Conn) {
	select {
	case l.ready <- c:
	case <-c.Done():
		_ = c.Close()
	case <-l.ctx.Done():
		_ = c.Close()
	}
}

// Closed says whether Close was called.
func (l *Listener) Closed() bool { return l.ctx.Err() != nil }

// Addr is the address that the listener is bound to.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Accept waits for the next authenticated connection. The error is ErrClosed
// after Close. Safe for concurrent use.
func (l *Listener) Accept() (*Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, ErrClosed
	}
}

// Close ends the listener, the handshakes in flight and connections that nobody
// has accepted; the accepted ones live on. It may be called any number of times
// and returns when nothing of the listener is left.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.cancel()
		_ = l.l.Close()
	})
	l.tasks.Wait()
	return l.remove()
}

func (l *Listener) loop() {
	for {
		nc, err := l.l.Accept()
		switch {
		case err == nil:
			if !l.makeRoom() {
				_ = nc.Close()
				return
			}
			l.begin(nc)
		case errors.Is(err, net.ErrClosed):
			return
		case l.evict(): // it is out of descriptors, most likely
		case !l.sleep(50 * time.Millisecond):
			return
		}
	}
}

// makeRoom has another handshake begin as soon as it may; false after Close. It
// waits only when all places are taken by handshakes with processes of the run.
func (l *Listener) makeRoom() bool {
	for {
		l.mu.Lock()
		full := len(l.inFlight) >= maxHandshakes
		l.mu.Unlock()
		if !full || l.evict() {
			return l.ctx.Err() == nil
		}
		if !l.sleep(time.Second) {
			return false
		}
	}
}

// evict closes a stranger's connection, if there is one.
func (l *Listener) evict() bool {
	h := l.choose()
	if h == nil {
		return false
	}
	_ = plain(h.socket).Close() // now: it is its descriptor that is needed
	return true
}

// choose takes a stranger out of those in flight: of the address that has the
// most, the oldest. So a process of the run at that very address has its place
// until 256 others have come after it.
func (l *Listener) choose() *handshake {
	l.mu.Lock()
	defer l.mu.Unlock()
	strangers := map[netip.Prefix]int{}
	most := 0
	for _, h := range l.inFlight {
		if !h.known {
			strangers[h.from]++
			most = max(most, strangers[h.from])
		}
	}
	for i, h := range l.inFlight {
		if !h.known && strangers[h.from] == most {
			l.inFlight = slices.Delete(l.inFlight, i, i+1)
			return h
		}
	}
	return nil
}

// sleep waits, at most until a handshake ends; false after Close.
func (l *Listener) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.left:
	case <-t.C:
	case <-l.ctx.Done():
		return false
	}
	return true
}

func (l *Listener) begin(nc net.Conn) {
	h := &handshake{socket: l.wrap(nc), from: source(nc)}
	deadline := time.Now().Add(l.opts.HandshakeTimeout)
	ctx, cancel := context.WithDeadline(l.ctx, deadline)
	l.mu.Lock()
	l.inFlight = append(l.inFlight, h)
	l.mu.Unlock()
	l.tasks.Go(func() {
		c, err := join(ctx, h.socket, l.cred, l.opts, deadline, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			h.known = true
		})
		cancel()
		l.finish(h)
		if err != nil {
			return
		}
		select {
		case l.ready <- c:
		case <-c.Done():
			_ = c.Close()
		case <-l.ctx.Done():
			_ = c.Close()
		}
	})
}

func (l *Listener) finish(h *handshake) {
	l.mu.Lock()
	l.inFlight = slices.DeleteFunc(l.inFlight, func(other *handshake) bool { return other == h })
	l.mu.Unlock()
	select {
	case l.left <- struct{}{}:
	default:
	}
}
