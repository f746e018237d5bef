package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	maxHandshakes = 256 // in flight on one listener
	// patience is how long a peer may say nothing when others wait for its place.
	// One of ours speaks first, and at once; if it cannot, it dials again.
	patience = time.Second
)

// Listener accepts authenticated connections of its run. Handshakes go on side
// by side and apart from the accept loop, at most 256 at a time, each bounded by
// Options.HandshakeTimeout; when more are wanted, a peer that has said nothing
// for a second is given up. So a peer that does not authenticate costs little.
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
	inFlight []*handshake // oldest first
	left     chan struct{}
}

type handshake struct {
	began  time.Time
	spoke  bool // under the listener's lock
	cancel context.CancelFunc
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
	for l.makeRoom() {
		nc, err := l.l.Accept()
		switch {
		case err == nil:
			l.begin(nc)
		case errors.Is(err, net.ErrClosed):
			return
		case !l.sleep(50 * time.Millisecond): // out of descriptors, most likely
			return
		}
	}
}

// makeRoom waits until another handshake may begin; false after Close.
func (l *Listener) makeRoom() bool {
	for {
		wait := patience
		l.mu.Lock()
		if len(l.inFlight) < maxHandshakes {
			l.mu.Unlock()
			return l.ctx.Err() == nil
		}
		i := slices.IndexFunc(l.inFlight, func(h *handshake) bool { return !h.spoke })
		if i >= 0 {
			if wait -= time.Since(l.inFlight[i].began); wait <= 0 {
				l.inFlight[i].cancel()
				wait = patience
			}
		}
		l.mu.Unlock()
		if !l.sleep(wait) {
			return false
		}
	}
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
	h := &handshake{began: time.Now()}
	deadline := h.began.Add(l.opts.HandshakeTimeout)
	ctx, cancel := context.WithDeadline(l.ctx, deadline)
	h.cancel = cancel
	l.mu.Lock()
	l.inFlight = append(l.inFlight, h)
	l.mu.Unlock()
	l.tasks.Go(func() {
		c, err := join(ctx, l.wrap(nc), l.cred, l.opts, deadline, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			h.spoke = true
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
