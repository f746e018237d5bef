//go:build !linux

package transport

import "net"

// checkPeer leaves it to the private directory and the run's secret.
func checkPeer(*net.UnixConn) error { return nil }
