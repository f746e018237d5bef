//go:build !linux

package transport

import "net"

// checkPeer checks nothing here: the private directory and the run's secret
// keep others out.
func checkPeer(*net.UnixConn) error { return nil }
