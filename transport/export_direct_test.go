//go:build linux || darwin

package transport

import (
	"syscall"
)

// Jam writes to the socket below c until it takes no more.
func Jam(c *Conn) {
	full := make([]byte, 64<<10)
	raw, _ := plain(c.nc).(syscall.Conn).SyscallConn()
	for stuck := false; !stuck; {
		_ = raw.Write(func(fd uintptr) bool {
			_, err := writeSome(int(fd), [][]byte{full})
			stuck = err != nil
			return true
		})
	}
}
