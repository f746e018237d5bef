// Package shm has memory that processes of one machine share: a Store holds what this process shares, each written once and sealed,
// and hands it to processes that know its key. What they map is Go's own memory to whoever has it: a slice stays valid as long as
// anything points into it, and a write to it copies the page for this process alone.
package shm

import (
	"context"
	"errors"
	"fmt"
)

// align is what frames are aligned to.
const align = 64

// ErrNone is the error where there is no such memory.
var ErrNone = errors.New("there is no memory that processes share in that way")

// Options are what a Store is made with.
type Options struct {
	Name string // of its memory, in the lists of the system
	// Root is the directory below which all Stores of the run have their sockets; only this user can enter it. No other socket is
	// dialled, whatever a Segment says that has come from elsewhere.
	Root string
	// Dir makes Root, and returns it, or "" if nobody could connect. It is asked when that is needed. Somebody may remove the
	// directory while it is empty.
	Dir func(context.Context) (string, error)
	// Limit returns how many bytes may be in memory, 0 for any number. The rest lies in files in Temp.
	Limit func() int64
	Temp  string
}

// Segment says where frames are that lie in a process's Store.
type Segment struct {
	Socket string // of the Store, "" if only its own process can Open it
	Key    string // which processes know that may have the frames
	Sizes  []int  // of the frames
}

// FullError is a value for which there is no room.
type FullError struct {
	Size, Used, Limit int64  // of the value, of all that is in memory, and of what may be
	Why               string // it can't lie on disk
}

// Error returns one line, which names the setting.
func (e *FullError) Error() string {
	return fmt.Sprintf("its %d bytes do not fit into memory, where shared values have %d of %d bytes (share_memory), nor on disk: %s",
		e.Size, e.Used, e.Limit, e.Why)
}
