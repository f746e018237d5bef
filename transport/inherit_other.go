//go:build !unix

package transport

import (
	"net"
	"os"
)

// inherited is an ordinary connection here.
type inherited struct{ net.Conn }

// Inherit makes a connection of a socket that this process was started with.
func Inherit(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	return net.FileConn(f)
}
