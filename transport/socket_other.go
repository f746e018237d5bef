//go:build !linux && !darwin

package transport

import (
	"errors"
	"net"
)

const nonBlocking = false

func detachableOf(nc net.Conn) net.Conn { return nc }

func writeSome(uintptr, [][]byte) (int, error) { return 0, errors.ErrUnsupported }

func readable(uintptr) bool { return true }

func shutRead(uintptr) {}

func discard(uintptr) {}
