//go:build !linux && !darwin

package transport

import "net"

const nonBlocking = false

func detachableOf(nc net.Conn) net.Conn { return nc }

func readable(uintptr) bool { return true }

func shutRead(uintptr) {}

func discard(uintptr) {}
