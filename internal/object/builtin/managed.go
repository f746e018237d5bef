// Package managed is the manager's side of the built-in objects: dicts, lists,
// locks and their like. (Queues are package queue's.)
//
// An object knows nothing of types: a value is the bytes that its user has
// encoded, and stands for itself. Requests are answered where they are read,
// and those that have to wait are kept in a line until somebody's request, the
// end of the waiting, or the death of a process answers them.
package builtin

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/queue"
)

// The kinds of objects that Make makes.
const (
	KindDict      = "dict"      // also a namespace
	KindList      = "list"      // also an array, and a value, which is one of length 1
	KindLock      = "lock"      //
	KindRLock     = "rlock"     // also a condition
	KindSemaphore = "semaphore" //
	KindEvent     = "event"     //
	KindBarrier   = "barrier"   //
	KindQueue     = "queue"     //
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
	OutOfRange = object.OwnCodes + 16 + iota // there is no such index
	NotHeld                                  // the lock is not the releaser's
	TooOften                                 // the semaphore has all its permits
	Broken                                   // the barrier is broken
)

// Making says what object to make.
type Making struct {
	Kind    string
	N       int  // of a semaphore the permits, of a barrier the parties, of a queue the capacity, 0 for none
	Bounded bool // the semaphore never has more permits than at first
	Values  []object.Value
}

// Make makes an object.
func Make(s *object.Server, m Making) (object.Object, error) {
	switch m.Kind {
	case KindDict:
		return newDict(s), nil
	case KindList:
		return newList(s, m.Values), nil
	case KindLock, KindRLock:
		return &lock{reentrant: m.Kind == KindRLock}, nil
	case KindSemaphore:
		return &semaphore{initial: m.N, value: m.N, bounded: m.Bounded}, nil
	case KindEvent:
		return new(event), nil
	case KindBarrier:
		return &barrier{parties: m.N}, nil
	case KindQueue:
		return queue.New(s, m.N), nil
	}
	return nil, fmt.Errorf("fiber: a manager makes no %q; are both ends the same version?", m.Kind)
}

// base is what all objects have in common. What one of them does otherwise, it
// has a method of its own for.
type base struct {
	mu      sync.Mutex
	gone    bool
	waiting line
}

// serve has an object serve a request, with its lock held.
func serve[O any](b *base, o O, ops object.Table[O], r *object.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		r.Fail(object.Gone, "")
		return
	}
	ops.Serve(o, r)
}

// GiveUp takes a waiting request out.
func (b *base) GiveUp(r *object.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.remove(r)
	r.Fail(object.GivenUp, "")
}

// Left has nothing to do: what a process has done stays so.
func (b *base) Left(*object.Session, bool) {}

// Drop tells those who wait.
func (b *base) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	b.waiting.fail(object.Gone, "")
}

// owner is a proxy in a process.
type owner struct {
	peer *object.Session
	id   uint64
}

// waiter is a request that waits for something.
type waiter struct {
	r  *object.Request
	by owner // where it matters

	// Of who waits for a lock, or sleeps until there is a notice, after which it
	// waits for the lock.
	count     int    // how often it has it when it has it
	condition uint64 // that it waits or has waited for, 0 for none
	wait      uint64 // a number that its process gave it
	ended     bool   // it was not notified
}

// line is who waits, the longest waiting first.
type line []waiter

func (l *line) add(r *object.Request) { *l = append(*l, waiter{r: r}) }

// first takes the first one out.
func (l *line) first() waiter {
	w := (*l)[0]
	*l = slices.Delete(*l, 0, 1)
	return w
}

// remove takes out who waits by a request, and says whether there was one.
func (l *line) remove(r *object.Request) (w waiter, ok bool) {
	i := slices.IndexFunc(*l, func(w waiter) bool { return w.r == r })
	if i < 0 {
		return w, false
	}
	w = (*l)[i]
	*l = slices.Delete(*l, i, i+1)
	return w, true
}

// fail refuses what all wait for.
func (l *line) fail(code byte, text string) {
	for _, w := range *l {
		w.r.Fail(code, text)
	}
	*l = nil
}

// store is what objects that keep values have in common.
type store struct {
	base
	home    *object.Server
	version uint64         // of the last write
	freed   []object.Value // to be let go of when the lock is
}

// serveStored is serve for an object that keeps values.
func serveStored[O any](s *store, o O, ops object.Table[O], r *object.Request) {
	serve(&s.base, o, ops, r)
	s.letGo()
}

// letGo lets go of what was freed. The lock is not held: the last hold of an
// object may be the object's own, whose lock it takes.
func (s *store) letGo() {
	s.mu.Lock()
	freed := s.freed
	s.freed = nil
	s.mu.Unlock()
	for _, v := range freed {
		s.home.ReleaseRefs(v)
	}
}

// Cell is what an object says of one of its values.
type Cell struct {
	Done    bool           // what was asked for is
	Version uint64         // of the write that it came with, which no other one has; 0 when there is no value
	Values  []object.Value // it, or none
}

// cell is a value and its version.
type cell struct {
	value   object.Value
	version uint64
}

// keep makes a cell of a value that is one of so many in a message. The lock
// is held.
func (s *store) keep(v object.Value, of int) cell {
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
func (s *store) free(v object.Value) {
	if len(v.Refs) > 0 {
		s.freed = append(s.freed, v)
	}
}

// reply answers what a cell holds, and whether what was asked for is done.
func reply(r object.Asked[Cell], done bool, c *cell) {
	if c == nil {
		r.Reply(Cell{Done: done})
		return
	}
	r.Reply(Cell{done, c.version, []object.Value{given(r.Request, c.value)}})
}

// given is a value that goes to whoever asks for it, and what it names is held
// until it has come there. In this process it is about to be the user's.
func given(r *object.Request, v object.Value) object.Value {
	r.Holding(v)
	if r.Peer.Local() {
		return v.Private()
	}
	return v
}

// equal says whether two values are the same bytes.
func equal(a, b object.Value) bool { return slices.EqualFunc(a.Frames, b.Frames, slices.Equal[[]byte]) }
