// Package shm has memory that processes of one machine share: a Segment is written once, sealed, and mapped by each process that has
// its descriptor. What is mapped are Go's own bytes to whoever has them: a slice stays valid as long as anything points into it,
// and a write to it copies the page for this process alone.
package shm

import "errors"

// Align is what the frames of a Segment are aligned to.
const Align = 64

// ErrNone is the error on systems that do not have such memory.
var ErrNone = errors.New("this system has no memory that processes share in that way")
