//go:build linux || darwin

package transport

import "golang.org/x/sys/unix"

const nonBlocking = true

// writeSome makes one write to a non-blocking socket.
func writeSome(fd uintptr, bufs [][]byte) (n int, err error) {
	for {
		if len(bufs) == 1 {
			n, err = unix.Write(int(fd), bufs[0])
		} else {
			n, err = unix.Writev(int(fd), bufs)
		}
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// readable reports whether a socket has bytes, or its end, to read right now.
func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
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
