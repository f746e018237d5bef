//go:build linux || darwin

package transport

import (
	"time"

	"golang.org/x/sys/unix"
)

const nonBlocking = true

// writeSome makes one write to a non-blocking socket.
func writeSome(fd int, bufs [][]byte) (n int, err error) {
	if len(bufs) == 1 {
		return unix.Write(fd, bufs[0])
	}
	return unix.Writev(fd, bufs)
}

// readable reports whether a socket has bytes, or its end, to read right now.
func readable(fd uintptr) bool { return ready(fd, unix.POLLIN, 0) }

// ready waits in the kernel for at most d until a socket is ready for events.
func ready(fd uintptr, events int16, d time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := unix.Poll(fds, int(d.Milliseconds()))
	return err == nil && n > 0
}

func shutRead(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) }

// discard reads and drops what has arrived, up to 256 KiB.
func discard(fd uintptr) {
	var buf [4 << 10]byte
	for range 64 {
		n, _, err := unix.Recvfrom(int(fd), buf[:], unix.MSG_DONTWAIT)
		if n <= 0 || err != nil {
			return
		}
	}
}
