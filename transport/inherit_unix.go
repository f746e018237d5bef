//go:build unix

package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Inherited is the connection that a process was started with.
type Inherited struct {
	*net.UnixConn
	alone atomic.Bool
}

// Inherit makes a connection of a unix socket that this process was started
// with. It owns fd.
func Inherit(fd int) (*Inherited, error) {
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("transport: the inherited descriptor %d: %w", fd, err)
	}
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		nc.Close()
		return nil, fmt.Errorf("transport: the inherited descriptor %d is no unix socket", fd)
	}
	return &Inherited{UnixConn: uc}, nil
}

// Alone says whether the goroutine that reads is the only one with something
// to do. It then waits in the kernel, which is the shortest way from the peer's
// write to the reader. Otherwise it waits in Go's poller: a thread that blocks
// in the kernel keeps its share of the scheduler, timers included, for up to
// 10 ms (runtime.sysmon).
func (c *Inherited) Alone(yes bool) { c.alone.Store(yes) }

func (c *Inherited) Read(p []byte) (int, error) {
	if c.alone.Load() {
		raw, err := c.SyscallConn()
		if err != nil {
			return 0, err
		}
		err = raw.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			for {
				if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
					return
				}
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return c.UnixConn.Read(p)
}

// Close wakes a reader in the kernel, too.
func (c *Inherited) Close() error {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	return c.UnixConn.Close()
}
