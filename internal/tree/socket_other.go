//go:build !unix

package tree

import (
	"errors"
	"net"
	"os"
)

// The local backend, which needs a socket to inherit, says that it does not
// work here before it is asked for one.

func socketPair() (net.Conn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func keepInherited(int) {}
