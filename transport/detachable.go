//go:build linux || darwin

package transport

import (
	"errors"
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
// waits were shorter than that. Waking a thread takes about as long.
const spinTime = 50 * time.Microsecond

// A reader does not spin for spinRest after another thread has taken the
// processor.
const spinRest = 100 * time.Millisecond

// lingering counts the readers that wait in the kernel: each has a thread, and
// may keep its share of the scheduler for up to 10 ms (runtime.sysmon).
var lingering atomic.Int32

// detachable is a socket that can be taken out of Go's poller for as long as
// messages come in quick succession. The poller's threads are woken by every
// event on every socket in it, even by the peer's reads, which doubles the time
// of a round trip between two processes. When a thread waits in the kernel for
// its own socket, no other thread is woken.
type detachable struct {
	local, remote net.Addr
	lingers       atomic.Bool // the reader may wait in the kernel

	wait time.Duration // the expected wait; wait and rest are for the reader alone
	rest time.Time     // the reader does not spin before

	mu       sync.Mutex
	nc       net.Conn // the socket in Go's poller
	raw      syscall.RawConn
	fd       int // the socket outside of the poller; else -1
	former   int // the fd of before the socket went back, while still in use; else -1
	polled   int // calls that use nc
	direct   int // calls that use fd or former
	closed   bool
	deadline time.Time // of reads
}

// detachableOf returns a detachable for a socket, and other connections as they
// are.
func detachableOf(nc net.Conn) net.Conn {
	switch nc.(type) {
	case *net.UnixConn, *net.TCPConn:
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil {
			return &detachable{local: nc.LocalAddr(), remote: nc.RemoteAddr(), nc: nc, raw: raw, fd: -1, former: -1}
		}
	}
	return nc
}

// hold returns the socket in its present state, which lasts until release: fd
// or, if that is negative, nc.
func (c *detachable) hold() (fd int, nc net.Conn, raw syscall.RawConn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		err = net.ErrClosed
	case c.fd >= 0:
		c.direct++
	default:
		c.polled++
	}
	return c.fd, c.nc, c.raw, err
}

func (c *detachable) release(fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fd < 0 {
		c.polled--
		return
	}
	if c.direct--; c.direct == 0 && c.former >= 0 {
		_ = unix.Close(c.former)
		c.former = -1
	}
}

// leave takes the socket out of the poller, unless a call uses it there.
func (c *detachable) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.fd >= 0 || c.polled > 0 || c.direct > 0 {
		return
	}
	_ = c.raw.Control(func(fd uintptr) {
		if own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			c.fd = own
		}
	})
	if c.fd >= 0 {
		_ = c.nc.Close()
	}
}

// enter puts the socket back into the poller.
func (c *detachable) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.fd < 0:
		return nil
	}
	own, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(own), "socket")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return err
	}
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err == nil {
		err = nc.SetReadDeadline(c.deadline)
	}
	if err != nil {
		return errors.Join(err, nc.Close())
	}
	c.nc, c.raw = nc, raw
	c.retire()
	return nil
}

// retire closes fd once no call uses it any more. The lock is held.
func (c *detachable) retire() {
	if c.direct > 0 {
		c.former = c.fd
	} else {
		_ = unix.Close(c.fd)
	}
	c.fd = -1
}

// await waits in the kernel for events, for lingerTime at most, and reports
// whether to try again.
func await(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(fds, int(lingerTime.Milliseconds()))
	return n > 0 || err == unix.EINTR
}

func (c *detachable) Read(p []byte) (n int, err error) {
	if c.wait < lingerTime && c.lingers.Load() {
		c.leave()
	}
	for {
		fd, nc, _, err := c.hold()
		if err != nil {
			return 0, err
		}
		if fd < 0 {
			defer c.release(fd)
			begun := time.Now()
			n, err = nc.Read(p)
			c.waited(time.Since(begun))
			return n, err
		}
		n, come, err := c.readDirect(fd, p)
		c.release(fd)
		if come {
			return n, err
		}
		if err := c.enter(); err != nil {
			return 0, err
		}
	}
}

// readDirect reads what comes while the reader may wait in the kernel; come is
// false if nothing does.
func (c *detachable) readDirect(fd int, p []byte) (n int, come bool, err error) {
	for {
		if c.expired() {
			return 0, true, os.ErrDeadlineExceeded
		}
		n, err := unix.Read(fd, p)
		switch {
		case err == nil && n == 0 && len(p) > 0:
			return 0, true, io.EOF
		case err == nil:
			return n, true, nil
		case err == unix.EAGAIN:
			if !c.lingers.Load() || !c.linger(fd) {
				return 0, false, nil
			}
		case err != unix.EINTR:
			return 0, true, os.NewSyscallError("read", err)
		}
	}
}

func (c *detachable) expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.deadline.IsZero() && time.Now().After(c.deadline)
}

// linger waits for something to read, for lingerTime at most. It returns false
// at once when too few threads would be left for other goroutines.
func (c *detachable) linger(fd int) bool {
	defer lingering.Add(-1)
	if int(lingering.Add(1)) > max(1, runtime.GOMAXPROCS(0)-1) {
		return false
	}
	runtime.Gosched() // this thread's other goroutines go first
	begun := time.Now()
	come := c.wait < spinTime && begun.After(c.rest) && c.spin(fd, begun) || await(fd, unix.POLLIN)
	c.waited(time.Since(begun))
	return come
}

// waited records how long a wait took. A long wait counts for a while: after an
// idle time it takes two short ones before the reader lingers, and 40 before it
// spins.
func (c *detachable) waited(d time.Duration) { c.wait = max(min(d, lingerTime), c.wait-c.wait/8) }

// spin looks for something to read again and again, and yields the processor in
// between. A thread that is awake when the message comes has it in half the time
// or less: no thread has to be woken, possibly on a sleeping processor. If other
// threads take the processor, spinning costs more than it saves.
func (c *detachable) spin(fd int, now time.Time) bool {
	for end := now.Add(spinTime); now.Before(end) && runtime.NumCPU() > 1; {
		if readable(uintptr(fd)) {
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

func (c *detachable) Write(p []byte) (n int, err error) {
	var failed error
	err = c.write(func(fd uintptr) bool {
		for n < len(p) && failed == nil {
			var m int
			m, failed = writeSome(fd, [][]byte{p[n:]})
			n += m
			if failed == unix.EAGAIN {
				failed = nil
				return false
			}
		}
		return true
	})
	return n, errors.Join(err, failed)
}

// write calls try each time the socket can be written to, until try returns
// true.
func (c *detachable) write(try func(fd uintptr) bool) error {
	for {
		fd, _, raw, err := c.hold()
		if err != nil {
			return err
		}
		if fd < 0 {
			defer c.release(fd)
			return raw.Write(try)
		}
		done := try(uintptr(fd))
		for !done && await(fd, unix.POLLOUT) {
			done = try(uintptr(fd))
		}
		c.release(fd)
		if done {
			return nil
		}
		if err := c.enter(); err != nil {
			return err
		}
	}
}

// Close closes the socket and wakes all calls that wait.
func (c *detachable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if c.former >= 0 {
		_ = unix.Shutdown(c.former, unix.SHUT_RDWR)
	}
	if c.fd < 0 {
		return c.nc.Close()
	}
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	c.retire()
	return nil
}

// Linger says whether the reader may wait in the kernel; see Conn.Linger.
func (c *detachable) Linger(yes bool) { c.lingers.Store(yes) }

func (c *detachable) LocalAddr() net.Addr  { return c.local }
func (c *detachable) RemoteAddr() net.Addr { return c.remote }

// SetReadDeadline wakes a reader in the poller at once, and one in the kernel
// after lingerTime at most.
func (c *detachable) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.fd >= 0 {
		return nil
	}
	return c.nc.SetReadDeadline(t)
}

// SetWriteDeadline and SetDeadline are for the handshake, during which the
// socket is in the poller.
func (c *detachable) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		return nil
	}
	return c.nc.SetWriteDeadline(t)
}

func (c *detachable) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SyscallConn gives the rest of this package access to the descriptor.
func (c *detachable) SyscallConn() (syscall.RawConn, error) { return rawDetachable{c}, nil }

type rawDetachable struct{ *detachable }

func (r rawDetachable) Control(f func(fd uintptr)) error {
	fd, _, raw, err := r.hold()
	if err != nil {
		return err
	}
	defer r.release(fd)
	if fd < 0 {
		return raw.Control(f)
	}
	f(uintptr(fd))
	return nil
}

// Read waits in the poller.
func (r rawDetachable) Read(f func(fd uintptr) (done bool)) error {
	if err := r.enter(); err != nil {
		return err
	}
	_, _, raw, err := r.hold()
	if err != nil {
		return err
	}
	defer r.release(-1)
	return raw.Read(f)
}

func (r rawDetachable) Write(f func(fd uintptr) (done bool)) error { return r.write(f) }
