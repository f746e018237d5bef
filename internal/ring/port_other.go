//go:build !linux

package ring

import (
	"fmt"
	"net"
)

// reservePort finds a TCP port that is free now.
func reservePort() (port int, release func(), err error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, nil, fmt.Errorf("fiber: finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, func() {}, nil
}
