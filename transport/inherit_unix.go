//go:build unix

package transport

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Inherit makes a connection of a socket that this process was started with.
// A read blocks a thread in the kernel instead of parking a goroutine in Go's
// poller: that costs a thread, and halves the way from the peer's write to the
// reader, which is worth it for the one socket that a process lives by.
// It takes no deadlines, and owns fd.
func Inherit(fd int) (net.Conn, error) {
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return nil, fmt.Errorf("transport: descriptor %d is not a socket: %w", fd, err)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &inherited{fd: fd}, nil
}

// inherited is a blocking socket. Its descriptor is never closed, only shut
// down: a reader may be in the kernel with it, and it lives as long as the
// process.
type inherited struct {
	fd     int
	closed atomic.Bool
}

func (c *inherited) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(c.fd, p)
		switch {
		case err == unix.EINTR:
		case c.closed.Load():
			return 0, net.ErrClosed
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (c *inherited) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := unix.SendmsgN(c.fd, p[written:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
		case c.closed.Load():
			return written, net.ErrClosed
		case err != nil:
			return written, os.NewSyscallError("write", err)
		default:
			written += n
		}
	}
	return written, nil
}

func (c *inherited) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	return unix.Shutdown(c.fd, unix.SHUT_RDWR)
}

func (c *inherited) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (c *inherited) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (c *inherited) SetDeadline(time.Time) error      { return nil }
func (c *inherited) SetReadDeadline(time.Time) error  { return nil }
func (c *inherited) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn gives the descriptor to writes that must not block.
func (c *inherited) SyscallConn() (syscall.RawConn, error) { return (*inheritedRaw)(c), nil }

type inheritedRaw inherited

func (c *inheritedRaw) Control(f func(fd uintptr)) error {
	f(uintptr(c.fd))
	return nil
}

func (c *inheritedRaw) Read(f func(fd uintptr) bool) error  { return c.until(f, unix.POLLIN) }
func (c *inheritedRaw) Write(f func(fd uintptr) bool) error { return c.until(f, unix.POLLOUT) }

// until calls f until it is satisfied, waiting for the socket in between.
func (c *inheritedRaw) until(f func(fd uintptr) bool, event int16) error {
	for !f(uintptr(c.fd)) {
		if c.closed.Load() {
			return net.ErrClosed
		}
		fds := []unix.PollFd{{Fd: int32(c.fd), Events: event}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
	}
	return nil
}
