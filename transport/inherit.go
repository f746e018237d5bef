package transport

import (
	"fmt"
	"net"
	"os"
)

// Inherit returns a connection over a socket that this process was started
// with. It owns fd.
func Inherit(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("transport: the inherited descriptor %d: %w", fd, err)
	}
	return nc, nil
}
