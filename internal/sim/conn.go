package sim

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// window is how many bytes of a connection may be on their way, or wait to be read, in each direction.
const window = 256 << 10

// lingerTime is how long a reader lingers at most; see transport.Conn.Linger.
const lingerTime = 10 * time.Millisecond

// conn is an end of a simulated connection.
type conn struct {
	net      *network
	owner    *Process
	from, to net.Addr
	in, out  *stream
	read     deadline
	write    deadline
	serial   int
	helper   atomic.Uint64 // the caller that has read last, unless something was written since
	gone     atomic.Bool   // the owner's machine has failed: the other end does not hear of it
}

// Trusted: with TLS most of a run would be encryption.
func (c *conn) Trusted() bool { return !c.net.tls }

// held says why the owner can't use its end: it is no more, or it is stopped until goOn is closed.
func (c *conn) held() (goOn <-chan struct{}, err error) {
	if c.gone.Load() {
		return nil, net.ErrClosed
	}
	if stopped := c.owner.stopped.Load(); stopped != nil {
		return *stopped, nil
	}
	return nil, nil
}

// stream is what one end of a connection writes and the other reads.
type stream struct {
	link     *link
	from, to *Process

	mu      sync.Mutex
	pieces  []piece
	size    int           // bytes in pieces
	last    time.Time     // when the last piece arrives
	ended   error         // what the reader gets behind the pieces: io.EOF or a reset; nil while the writer may write
	over    time.Time     // when the reader notices
	deaf    error         // what the writer gets: the reader has closed its end, or it was reset
	changed chan struct{} // closed at the next change
}

// piece is bytes that arrive together.
type piece struct {
	at    time.Time
	bytes []byte
}

func newStream(l *link, from, to *Process) *stream {
	return &stream{link: l, from: from, to: to, changed: make(chan struct{})}
}

// arrival returns when bytes arrive that are written now.
func (s *stream) arrival(bytes int) time.Time {
	at, now := s.link.arrival(s.last, bytes), time.Now()
	for _, through := range []time.Time{s.from.out.pass(now, bytes, s.from.run.Rate), s.to.in.pass(now, bytes, s.from.run.Rate)} {
		if through.After(at) {
			at = through
		}
	}
	return at
}

// change wakes those who wait. The lock is held.
func (s *stream) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// take reads what has come, without waiting. wait is how long nothing will come for sure, 0 if that is not known.
func (s *stream) take(p []byte) (n int, wait time.Duration, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.pieces) > 0 && n < len(p) && !s.pieces[0].at.After(now) {
		first := &s.pieces[0]
		m := copy(p[n:], first.bytes)
		n += m
		if first.bytes = first.bytes[m:]; len(first.bytes) == 0 {
			s.pieces = s.pieces[1:]
		}
	}
	switch {
	case n > 0 || len(p) == 0:
		s.size -= n
		s.change()
	case len(s.pieces) > 0:
		wait = s.pieces[0].at.Sub(now)
	case s.ended != nil && !s.over.After(now):
		err = s.ended
	case s.ended != nil:
		wait = s.over.Sub(now)
	}
	return n, wait, s.changed, err
}

// arrived says whether take returns something.
func (s *stream) arrived() (yes bool, wait time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	at := s.over
	switch {
	case len(s.pieces) > 0:
		at = s.pieces[0].at
	case s.ended == nil:
		return false, 0, s.changed
	}
	return !at.After(now), at.Sub(now), s.changed
}

// put writes as much as there is room for, without waiting.
func (s *stream) put(bufs ...[]byte) (n int, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf != nil || s.ended != nil {
		err = s.deaf
		if err == nil {
			err = net.ErrClosed
		}
		return 0, s.changed, err
	}
	for _, b := range bufs {
		b = b[:min(len(b), window-s.size)]
		if len(b) == 0 {
			break
		}
		s.last = s.arrival(len(b))
		s.pieces = append(s.pieces, piece{s.last, append([]byte(nil), b...)})
		s.size += len(b)
		n += len(b)
	}
	if n > 0 {
		s.change()
	}
	return n, s.changed, nil
}

// end ends the stream from the writer's side, with io.EOF or a reset, which takes the bytes along.
func (s *stream) end(how error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return
	}
	s.ended = how
	if s.over = s.link.arrival(s.last, 0); how != io.EOF {
		s.pieces, s.size = nil, 0
	}
	s.change()
}

// shut ends the stream from the reader's side: what is written is dropped, and the writer hears of it.
func (s *stream) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces, s.size = nil, 0
	s.ended, s.over = net.ErrClosed, time.Time{}
	if s.deaf == nil {
		s.deaf = syscall.EPIPE
	}
	s.change()
}

// deadline ends waits.
type deadline struct {
	mu      sync.Mutex
	at      time.Time
	changed chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

func (d *deadline) get() (at time.Time, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return d.at, d.changed
}

// until calls try until it returns true, and waits in between: for so long, if that is not 0, or for a change.
func (d *deadline) until(try func() (done bool, wait time.Duration, changed <-chan struct{})) error {
	for {
		at, moved := d.get()
		if !at.IsZero() && !time.Now().Before(at) {
			return os.ErrDeadlineExceeded
		}
		done, wait, changed := try()
		if done {
			return nil
		}
		if left := time.Until(at); !at.IsZero() && (wait == 0 || left < wait) {
			wait = left
		}
		pause(wait, changed, moved)
	}
}

// pause waits for so long, for ever if that is 0, or until one of the channels is closed.
func pause(wait time.Duration, a, b <-chan struct{}) {
	var over <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-a:
	case <-b:
	case <-over:
	}
}

func (c *conn) Read(p []byte) (n int, err error) {
	late := c.read.until(func() (bool, time.Duration, <-chan struct{}) {
		var goOn <-chan struct{}
		if goOn, err = c.held(); goOn != nil || err != nil {
			return err != nil, 0, goOn
		}
		var wait time.Duration
		var changed <-chan struct{}
		n, wait, changed, err = c.in.take(p)
		return n > 0 || err != nil || len(p) == 0, wait, changed
	})
	if late != nil {
		return 0, late
	}
	return n, err
}

// ReadSoon is Read: nobody needs to be woken here.
func (c *conn) ReadSoon(p []byte) (int, error) { return c.Read(p) }

func (c *conn) Write(p []byte) (n int, err error) {
	c.helper.Store(0)
	for n < len(p) && err == nil {
		var m int
		m, err = c.WriteSome([][]byte{p[n:]})
		if n += m; m == 0 && err == nil {
			err = c.AwaitRoom()
		}
	}
	return n, err
}

// WriteSome writes what there is room for.
func (c *conn) WriteSome(bufs [][]byte) (int, error) {
	c.helper.Store(0)
	if goOn, err := c.held(); goOn != nil || err != nil {
		return 0, err
	}
	n, _, err := c.out.put(bufs...)
	return n, err
}

// AwaitRoom waits until WriteSome writes something, or fails.
func (c *conn) AwaitRoom() error {
	return c.write.until(func() (bool, time.Duration, <-chan struct{}) {
		if goOn, err := c.held(); goOn != nil || err != nil {
			return err != nil, 0, goOn
		}
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.out.size < window || c.out.deaf != nil || c.out.ended != nil, 0, c.out.changed
	})
}

// Linger waits until there is something to read, for a moment at most.
func (c *conn) Linger() bool {
	came := c.linger()
	if c.owner.run.inline {
		return came
	}
	helper := helps()
	switch {
	case helper == 0:
	case !came:
		c.owner.run.Count(CallerHandsOver)
	default:
		c.owner.run.Count(CallerReads)
		if c.helper.Load() == helper { // what it has read was not its own
			c.owner.run.Count(CallerReadsForOthers)
		}
	}
	c.helper.Store(helper)
	return came
}

// What callers do that wait for an answer, and read their connection meanwhile.
const (
	CallerReads          = "a caller reads"
	CallerReadsForOthers = "a caller reads for another"
	CallerHandsOver      = "a caller that reads hands over"
)

// helps returns a number of the calling goroutine if that is a caller that reads its connection, in turn.Reader.Help; else 0.
func helps() (number uint64) {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "turn.(*Reader).Help") {
			var text [64]byte
			_, _ = fmt.Sscanf(string(text[:runtime.Stack(text[:], false)]), "goroutine %d", &number)
			return number
		}
		if !more {
			return 0
		}
	}
}

func (c *conn) linger() bool {
	end := time.Now().Add(lingerTime)
	for {
		yes, wait, changed := c.in.arrived()
		if goOn, err := c.held(); goOn != nil || err != nil {
			yes, wait, changed = err != nil, 0, goOn
		}
		left := time.Until(end)
		if yes || left <= 0 {
			return yes
		}
		if wait == 0 || wait > left {
			wait = left
		}
		pause(wait, changed, nil)
	}
}

func (c *conn) Control(func(fd uintptr)) error { return errors.ErrUnsupported }

// Close ends both directions in good order, unless the owner's machine has failed: it sends no more.
func (c *conn) Close() error {
	if c.gone.Load() {
		return nil
	}
	return c.close(io.EOF)
}

func (c *conn) close(how error) error {
	c.out.end(how)
	c.in.shut()
	c.net.forget(c)
	return nil
}

// vanish ends the connection for its owner, whose machine has failed. The other end does not hear of it.
func (c *conn) vanish() {
	c.gone.Store(true)
	for _, s := range []*stream{c.in, c.out} {
		s.mu.Lock()
		s.change()
		s.mu.Unlock()
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.from }
func (c *conn) RemoteAddr() net.Addr { return c.to }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { c.read.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.write.set(t); return nil }
