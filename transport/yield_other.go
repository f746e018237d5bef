//go:build !linux

package transport

import "runtime"

// yield gives the processor to another goroutine.
func yield() { runtime.Gosched() }
