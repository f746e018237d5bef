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

	"github.com/fiber-go/fiber/internal/retry"
	"github.com/fiber-go/fiber/internal/self"
)

// maxHandshakes is the most handshakes in flight on one listener, and connections
// that were not accepted yet.
const maxHandshakes = 256

// maxAcceptPause is the longest pause before a listener that cannot accept another
// connection tries again.
const maxAcceptPause = 20 * time.Millisecond

// Listener accepts authenticated connections of its run. Handshakes run
// concurrently and apart from the accept loop, at most 256 at a time, each
// bounded by Options.HandshakeTimeout. When one more comes, a stranger's
// connection is closed at once: the oldest from the address that has the most. A
// process of the run that is closed this way dials again. So strangers cost
// little and cannot keep others out. A connection that has been authenticated keeps
// its place until Accept returns it.
type Listener struct {
	l        net.Listener
	endpoint string
	wrap     func(net.Conn) net.Conn
	remove   func() error // removes the socket's directory at the end
	cred     *Credentials
	opts     Options

	ready  chan *handshake
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once

	mu       sync.Mutex
	inFlight []*handshake // oldest first
}

// handshake is a connection that is not authenticated, or not accepted, yet.
type handshake struct {
	socket net.Conn
	from   netip.Prefix
	known  bool  // the peer's user or certificate was accepted; under the listener's lock
	conn   *Conn // once it is authenticated
}

// source returns where a connection comes from: an IPv4 address, or the 64-bit
// network that a host with IPv6 has to itself.
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
		ready: make(chan *handshake),
	}
	ln.ctx, ln.cancel = context.WithCancel(context.Background())
	ln.tasks.Go(ln.loop)
	return ln
}

// ListenTLS listens on a TCP address, "host:port", with port 0 for any free
// one. Only TLS 1.3 is spoken, and each end must show a certificate of the run.
func ListenTLS(address string, cred *Credentials, opts Options) (*Listener, error) {
	config, err := cred.tlsConfig()
	if err != nil {
		return nil, err
	}
	l, err := self.Of().Net.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	wrap := func(nc net.Conn) net.Conn {
		if self.Trusted(nc) {
			return nc
		}
		return tls.Server(nc, config)
	}
	return newListener(l, "tls:"+l.Addr().String(), wrap, cred, opts), nil
}

// Endpoint returns the endpoint to pass to Dial. That of a TLS listener on all
// addresses has the unspecified address, which only processes on this host can
// dial.
func (l *Listener) Endpoint() string { return l.endpoint }

// Advertise sets the host in the endpoint of a TLS listener, by which others
// reach it. Call it before Endpoint.
func (l *Listener) Advertise(host string) {
	_, port, _ := net.SplitHostPort(l.l.Addr().String())
	l.endpoint = "tls:" + net.JoinHostPort(host, port)
}

// Label appends to the endpoint a label that Dial does not understand and
// others do. Call it before Endpoint.
func (l *Listener) Label(label string) { l.endpoint += label }

// Closed reports whether Close was called.
func (l *Listener) Closed() bool { return l.ctx.Err() != nil }

// Addr returns the address that the listener is bound to.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Accept blocks until the next authenticated connection. After Close the error
// is ErrClosed. Accept may be called concurrently.
func (l *Listener) Accept() (*Conn, error) {
	select {
	case h := <-l.ready:
		l.finish(h)
		return h.conn, nil
	case <-l.ctx.Done():
		return nil, ErrClosed
	}
}

// Close ends the listener, the handshakes in flight and the connections that
// were not accepted yet; accepted ones go on. Close may be called any number of
// times and returns when nothing of the listener is left.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.cancel()
		_ = l.l.Close()
	})
	l.tasks.Wait()
	return l.remove()
}

func (l *Listener) loop() {
	for again := (retry.Pauses{Longest: maxAcceptPause}); ; {
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
		case l.evict(): // most likely the process is out of descriptors
		case !again.Wait(l.ctx):
			return
		}
	}
}

// makeRoom returns true as soon as another handshake may begin, and false after
// Close. It waits only when processes of the run take all the places.
func (l *Listener) makeRoom() bool {
	for again := (retry.Pauses{Longest: maxAcceptPause}); ; {
		l.mu.Lock()
		full := len(l.inFlight) >= maxHandshakes
		l.mu.Unlock()
		if !full || l.evict() {
			return l.ctx.Err() == nil
		}
		if !again.Wait(l.ctx) {
			return false
		}
	}
}

// evict closes the connection of a stranger and reports whether one was found.
func (l *Listener) evict() bool {
	h := l.choose()
	if h == nil {
		return false
	}
	_ = plain(h.socket).Close() // at once: its descriptor is needed
	return true
}

// choose removes a stranger from those in flight and returns it: the oldest
// from the address that has the most. So even a process of the run at that
// address keeps its place until 256 others have come after it.
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

func (l *Listener) begin(nc net.Conn) {
	h := &handshake{socket: l.wrap(nc), from: source(nc)}
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.HandshakeTimeout)
	l.mu.Lock()
	l.inFlight = append(l.inFlight, h)
	l.mu.Unlock()
	l.tasks.Go(func() {
		c, err := join(ctx, h.socket, l.cred, l.opts, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			h.known = true
		})
		cancel()
		if err != nil {
			l.finish(h)
			return
		}
		h.conn = c
		select {
		case l.ready <- h:
			return
		case <-c.Done():
		case <-l.ctx.Done():
		}
		l.finish(h)
		_ = c.Close()
	})
}

func (l *Listener) finish(h *handshake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = slices.DeleteFunc(l.inFlight, func(other *handshake) bool { return other == h })
}
