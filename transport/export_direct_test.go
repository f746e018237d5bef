//go:build linux || darwin

package transport

// Jam takes c's socket out of the poller, as a lingering reader does, and
// writes until the socket takes no more.
func Jam(c *Conn) {
	s := plain(c.nc).(*detachable)
	s.leave()
	full := make([]byte, 64<<10)
	raw := rawConn(s)
	for stuck := false; !stuck; {
		_ = raw.Write(func(fd uintptr) bool {
			_, err := writeSome(fd, [][]byte{full})
			stuck = err != nil
			return true
		})
	}
}
