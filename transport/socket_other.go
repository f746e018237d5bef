//go:build !unix

package transport

import "errors"

const nonBlocking = false

func writeSome(uintptr, [][]byte) (int, error) { return 0, errors.ErrUnsupported }

func readable(uintptr) bool { return true }

func shutRead(uintptr) {}

func discard(uintptr) {}
