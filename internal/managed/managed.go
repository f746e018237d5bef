// Package managed is the manager's side of the built-in objects: dicts, lists,
// locks and their like. (Queues are package queue's.)
//
// An object knows nothing of types: a value is the bytes that its user has
// encoded, and stands for itself. Requests are answered where they are read,
// and those that have to wait are kept in lists until somebody's request, the
// end of the waiting, or the death of a process answers them.
package managed

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/queue"
	"github.com/fiber-go/fiber/internal/wire"
)

// The kinds of objects that Make makes.
const (
	KindDict      = "dict"      // no arguments; also a namespace
	KindList      = "list"      // the values; also an array, and a value, which is one of length 1
	KindLock      = "lock"      // no arguments
	KindRLock     = "rlock"     // no arguments; also a condition
	KindSemaphore = "semaphore" // the permits, and 1 if there are never more
	KindEvent     = "event"     // no arguments
	KindBarrier   = "barrier"   // the parties
	KindQueue     = "queue"     // the capacity, 0 for none
)

// The numbers of the operations begin here, for each sort of object at
// another number, so that a request to an object of another sort is none.
const (
	dictOps      = 0x20
	listOps      = 0x40
	lockOps      = 0x60
	semaphoreOps = 0x80
	eventOps     = 0x90
	barrierOps   = 0xa0
)

// The codes of refusals; the text says more.
const (
	OutOfRange = home.OwnCodes + 16 + iota // there is no such index
	NotHeld                                // the lock is not the releaser's
	TooOften                               // the semaphore has all its permits
	Broken                                 // the barrier is broken
)

// Make makes an object of a kind.
func Make(h *home.Home, kind string, args []byte, values []home.Value) (home.Object, error) {
	in := wire.Reader{B: args}
	var o home.Object
	switch kind {
	case KindDict:
		o = newDict(h)
	case KindList:
		o = newList(h, values)
	case KindLock:
		o = newLock(false)
	case KindRLock:
		o = newLock(true)
	case KindSemaphore:
		o = newSemaphore(in.Int(), in.Int() == 1)
	case KindEvent:
		o = new(event)
	case KindBarrier:
		o = newBarrier(in.Int())
	case KindQueue:
		o = queue.New(h, in.Int())
	default:
		return nil, fmt.Errorf("fiber: a manager makes no %q; are both ends the same version?", kind)
	}
	if in.Err != nil || len(in.B) > 0 {
		return nil, fmt.Errorf("fiber: making a %s: %w", kind, wire.ErrMalformed)
	}
	return o, nil
}

// store is what objects that keep values have in common.
type store struct {
	home *home.Home

	mu      sync.Mutex
	gone    bool
	version uint64       // of the last write
	freed   []home.Value // to be let go of when the lock is
}

// cell is a value and the write that it came with, which no other one has.
type cell struct {
	value   home.Value
	version uint64
}

// keep makes a cell of a value that is one of so many in a message. The lock
// is held.
func (s *store) keep(v home.Value, of int) cell {
	if of > 1 { // else the whole message stays for one of its values
		frames := make([][]byte, len(v.Frames))
		for i, f := range v.Frames {
			frames[i] = slices.Clone(f)
		}
		v.Frames = frames
	}
	s.home.HoldRefs(v)
	s.version++
	return cell{v, s.version}
}

// free lets go of a value. The lock is held.
func (s *store) free(v home.Value) {
	if len(v.Refs) > 0 {
		s.freed = append(s.freed, v)
	}
}

// unlock unlocks, and lets go of what was freed: the last hold of an object
// may be the object's own, whose lock it takes.
func (s *store) unlock() {
	freed := s.freed
	s.freed = nil
	s.mu.Unlock()
	for _, v := range freed {
		s.home.ReleaseRefs(v)
	}
}

// reply answers with values.
func reply(r *home.Request, args []byte, values ...home.Value) {
	if r.Peer.Local() && len(values) == 1 {
		values[0] = values[0].Private() // it is about to be the user's
	}
	args, frames := Pack(args, values...)
	r.Reply(args, frames)
}

// current answers what a cell holds: whether what was asked for is done,
// whether there is a cell, its version and its value.
func current(r *home.Request, done bool, c *cell) {
	if c == nil {
		r.Reply([]byte{bit(done), 0, 0}, nil)
		return
	}
	reply(r, binary.AppendUvarint([]byte{bit(done), 1}, c.version), c.value)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func number(r *home.Request, ns ...int) {
	var args []byte
	for _, n := range ns {
		args = binary.AppendUvarint(args, uint64(n))
	}
	r.Reply(args, nil)
}

// equal says whether two values are the same bytes.
func equal(a, b home.Value) bool { return slices.EqualFunc(a.Frames, b.Frames, slices.Equal[[]byte]) }
