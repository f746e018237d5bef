//go:build !unix

package tree

import (
	"errors"
	"net"
	"os"
)

// The local backend is the one that needs a socket to inherit. It says that it
// does not work here before these functions are called.

func socketPair() (net.Conn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func keepInherited(int) {}
