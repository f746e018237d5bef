// Package shm has memory that processes of one machine share: a Store holds what this process shares, each written once and sealed,
// and hands it to processes that know its key. What they map is Go's own memory to whoever has it: a slice stays valid as long as
// anything points into it, and a write to it copies the page for this process alone.
package shm

import "errors"

// align is what frames are aligned to.
const align = 64

// ErrNone is the error where there is no such memory.
var ErrNone = errors.New("there is no memory that processes share in that way")

// Segment says where frames are that lie in a process's Store.
type Segment struct {
	Socket string // of the Store
	Key    string // which processes know that may have the frames
	Sizes  []int  // of the frames
}
