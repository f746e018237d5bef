//go:build linux || darwin

package transport

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A reader waits in the kernel for at most lingerTime before it waits in Go's
// poller again, and only when recent waits were shorter than that. With a
// shorter bound, the kernel's timer would cost a virtual machine more than the
// wait saves.
const lingerTime = 10 * time.Millisecond

// A reader spins for at most spinTime before it waits, and only when recent
// waits were shorter than that: a few times what waking a thread takes. Once a
// wait has had to wake one, the next ones would otherwise be too long to spin.
const spinTime = 200 * time.Microsecond

// A reader does not spin for spinRest after another thread has taken the
// processor. On a busy machine that costs a time slice, which is 3 ms or so, and
// a quiet one has such threads, too.
const spinRest = 30 * time.Millisecond

// lingering counts the readers that wait in the kernel: each has a thread, and
// may keep its share of the scheduler for up to 10 ms (runtime.sysmon).
var lingering atomic.Int32

// detachable is a unix socket that is taken out of Go's poller for as long as
// messages come in quick succession. The poller's threads are woken by every
// event on every socket in it, even by the peer's reads, which doubles the time
// of a round trip between two processes. When a thread waits in the kernel for
// its own socket, no other thread is woken.
type detachable struct {
	net.Conn // the socket at first, in the poller; for deadlines and addresses

	reads, writes attempt // one goroutine at a time reads, and one writes
	readPolled    func(syscall.RawConn, func(fd uintptr) bool) error
	wait          time.Duration // the expected wait; wait and rest are for the reader alone
	rest          time.Time     // the reader does not spin before

	using sync.RWMutex // held for reading while fd is used
	fd    int          // the socket outside of the poller; else -1

	mu       sync.Mutex
	polled   net.Conn  // the socket in the poller; else nil
	polls    int       // calls that use polled
	deadline time.Time // of reads that wait in the poller
	closed   bool
}

// detachableOf returns a detachable for a unix socket, and other connections as
// they are.
func detachableOf(nc net.Conn) net.Conn {
	if _, ok := nc.(*net.UnixConn); !ok {
		return nc
	}
	c := &detachable{Conn: nc, polled: nc, fd: -1}
	c.readPolled = func(raw syscall.RawConn, once func(fd uintptr) bool) error {
		begun := time.Now()
		defer func() { c.waited(time.Since(begun)) }()
		return raw.Read(once)
	}
	c.reads.init(func(fd int, bufs [][]byte) (int, error) { return unix.Read(fd, bufs[0]) })
	c.writes.init(writeSome)
	return c
}

// attempt is a system call in the form that syscall.RawConn takes, made once
// for all of them.
type attempt struct {
	once func(fd uintptr) (done bool)
	bufs [][]byte
	wait bool // until the socket is ready
	n    int
	err  error
}

func (a *attempt) init(call func(fd int, bufs [][]byte) (int, error)) {
	a.once = func(fd uintptr) bool {
		a.n, a.err = call(int(fd), a.bufs)
		for a.err == unix.EINTR {
			a.n, a.err = call(int(fd), a.bufs)
		}
		if a.err == unix.EAGAIN {
			a.n, a.err = 0, nil
			return !a.wait
		}
		return true
	}
}

// make makes an attempt outside of the poller or, if it has to wait, inside.
func (c *detachable) make(a *attempt, ready func(syscall.RawConn, func(fd uintptr) bool) error) (int, error) {
	if c.direct(a.once) {
		return a.n, a.err
	}
	raw, err := c.enter()
	if err != nil {
		return 0, err
	}
	defer c.exit()
	if err := ready(raw, a.once); err != nil {
		return 0, err
	}
	return a.n, a.err
}

func (c *detachable) Read(p []byte) (int, error) { return c.read(p, false) }

// ReadSoon is Read for bytes that are on their way: it lingers before it waits in
// the poller.
func (c *detachable) ReadSoon(p []byte) (int, error) { return c.read(p, true) }

func (c *detachable) read(p []byte, soon bool) (n int, err error) {
	c.reads.bufs, c.reads.wait = append(c.reads.bufs[:0], p), true
	if soon && (c.direct(c.reads.once) || c.Linger() && c.direct(c.reads.once)) {
		n, err = c.reads.n, c.reads.err
	} else {
		n, err = c.make(&c.reads, c.readPolled)
	}
	clear(c.reads.bufs)
	switch {
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// SetReadDeadline limits how long reads wait in the poller. Outside of it, they
// do not wait for long.
func (c *detachable) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline = t; c.polled == nil {
		return nil
	}
	return c.polled.SetReadDeadline(t)
}

// WriteSome makes one write, which does not wait: it may write nothing.
func (c *detachable) WriteSome(bufs [][]byte) (n int, err error) {
	c.writes.bufs = bufs
	return c.make(&c.writes, syscall.RawConn.Write)
}

// AwaitRoom waits until the socket takes something: outside of the poller first,
// where the reader may linger.
func (c *detachable) AwaitRoom() error {
	if c.direct(func(fd uintptr) bool { return ready(fd, unix.POLLOUT, lingerTime) }) {
		return nil
	}
	raw, err := c.enter()
	if err != nil {
		return err
	}
	defer c.exit()
	return raw.Write(func(fd uintptr) bool { return ready(fd, unix.POLLOUT, 0) })
}

// direct calls f with the descriptor outside of the poller, and returns false if
// there is none.
func (c *detachable) direct(f func(fd uintptr) bool) bool {
	c.using.RLock()
	defer c.using.RUnlock()
	return c.fd >= 0 && f(uintptr(c.fd))
}

// leave takes the socket out of the poller, unless a call waits for it there.
func (c *detachable) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.polled == nil || c.polls > 0 {
		return
	}
	c.using.Lock()
	defer c.using.Unlock()
	_ = control(c.polled, func(fd uintptr) {
		if own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			c.fd = own
		}
	})
	if c.fd >= 0 {
		_ = c.polled.Close()
		c.polled = nil
	}
}

// enter puts the socket into the poller, where it stays until exit.
func (c *detachable) enter() (syscall.RawConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.polled == nil {
		c.using.Lock()
		defer c.using.Unlock()
		nc, err := Inherit(c.fd)
		c.fd = -1
		if err != nil {
			c.closed = true
			return nil, err
		}
		c.polled = nc
		_ = nc.SetReadDeadline(c.deadline)
	}
	c.polls++
	return c.polled.(syscall.Conn).SyscallConn()
}

func (c *detachable) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls--
}

// Linger waits in the kernel until there is something to read; see Conn.Linger.
func (c *detachable) Linger() bool {
	if c.wait >= lingerTime {
		return false
	}
	defer lingering.Add(-1)
	if int(lingering.Add(1)) > max(1, runtime.GOMAXPROCS(0)-1) {
		return false
	}
	c.leave()
	return c.direct(func(fd uintptr) bool {
		if readable(fd) {
			return true
		}
		runtime.Gosched() // this thread's other goroutines go first
		begun := time.Now()
		come := c.wait < spinTime && begun.After(c.rest) && c.spin(fd, begun) || ready(fd, unix.POLLIN, lingerTime)
		c.waited(time.Since(begun))
		return come
	})
}

// waited records how long a wait took. A long wait counts for a while: after an
// idle time it takes a short message or two before the reader lingers, and about
// 30 before it spins.
func (c *detachable) waited(d time.Duration) { c.wait = max(min(d, lingerTime), c.wait-c.wait/8) }

// spin looks for something to read again and again, and yields the processor in
// between. A thread that is awake when the message comes has it in half the time
// or less: no thread has to be woken, possibly on a sleeping processor. If other
// threads take the processor, spinning costs more than it saves.
func (c *detachable) spin(fd uintptr, now time.Time) bool {
	for end := now.Add(spinTime); now.Before(end) && runtime.NumCPU() > 1; {
		if readable(fd) {
			return true
		}
		before := now
		yield()
		if now = time.Now(); now.Sub(before) > spinTime {
			c.rest = now.Add(spinRest)
		}
	}
	return false
}

// Control calls f with the descriptor.
func (c *detachable) Control(f func(fd uintptr)) error {
	if c.direct(func(fd uintptr) bool { f(fd); return true }) {
		return nil
	}
	raw, err := c.enter()
	if err != nil {
		return err
	}
	defer c.exit()
	return raw.Control(f)
}

// Close closes the socket and wakes all calls that wait.
func (c *detachable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if c.polled != nil {
		return c.polled.Close()
	}
	c.direct(func(fd uintptr) bool { return unix.Shutdown(int(fd), unix.SHUT_RDWR) == nil })
	c.using.Lock()
	defer c.using.Unlock()
	err := unix.Close(c.fd)
	c.fd = -1
	return err
}
