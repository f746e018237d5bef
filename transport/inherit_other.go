//go:build !unix

package transport

import (
	"fmt"
	"net"
	"os"
)

// Inherited is the connection that a process was started with.
type Inherited struct{ net.Conn }

// Inherit makes a connection of a socket that this process was started with.
func Inherit(fd int) (*Inherited, error) {
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("transport: the inherited descriptor %d: %w", fd, err)
	}
	return &Inherited{nc}, nil
}

// Alone makes no difference here.
func (c *Inherited) Alone(bool) {}
