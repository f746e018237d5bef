// Package builtin implements the built-in managed objects in their manager:
// dicts, lists, locks and their like. (Queues are package queue's.)
//
// Objects know nothing of types: a value is the bytes that a user has encoded,
// and two values are equal if their bytes are. A request is answered on the
// goroutine that reads it. If it has to wait, it is kept in a line until another
// request, the end of its waiting, or the death of a process answers it.
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
	KindDict      = "dict"      // namespaces, too
	KindList      = "list"      // arrays, too, and values: lists of length 1
	KindLock      = "lock"      //
	KindRLock     = "rlock"     // conditions, too
	KindSemaphore = "semaphore" //
	KindEvent     = "event"     //
	KindBarrier   = "barrier"   //
	KindQueue     = "queue"     //
)

// The first operation of each sort of object. No two sorts share a number, so
// that a request to an object of another sort is refused.
const (
	dictOps    = 0x20
	listOps    = 0x40
	lockOps    = 0x60
	eventOps   = 0x90
	barrierOps = 0xa0
)

// The codes of refusals; the text says more.
const (
	OutOfRange = object.OwnCodes + 16 + iota // there is no such index
	NotHeld                                  // the lock is not held by the requester
	TooOften                                 // the semaphore has all its permits
	Broken                                   // the barrier is broken
)

// Making says what object to make.
type Making struct {
	Kind    string
	N       int  // a semaphore's permits, a barrier's parties, or a queue's capacity (0: unbounded)
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
		return &lock{exclusive: true, reentrant: m.Kind == KindRLock, initial: 1, free: 1}, nil
	case KindSemaphore:
		return &lock{bounded: m.Bounded, initial: m.N, free: m.N}, nil
	case KindEvent:
		return new(event), nil
	case KindBarrier:
		return &barrier{parties: m.N}, nil
	case KindQueue:
		return queue.New(s, m.N), nil
	}
	return nil, fmt.Errorf("fiber: a manager makes no %q; are both ends the same version?", m.Kind)
}

// base is common to all objects. An object that differs has methods of its own
// instead.
type base struct {
	mu      sync.Mutex
	gone    bool
	waiting line
}

// serve makes an object serve a request, with its lock held.
func serve[O any](b *base, o O, ops object.Table[O], r *object.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		r.Fail(object.Gone, "")
		return
	}
	ops.Serve(o, r)
}

// GiveUp removes a waiting request.
func (b *base) GiveUp(r *object.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.remove(r)
	r.Fail(object.GivenUp, "")
}

// Left does nothing: what a process has done stays done.
func (b *base) Left(*object.Session, bool) {}

// Drop refuses all waiting requests.
func (b *base) Drop() { b.drop(func() {}) }

// drop is Drop for an object that also has to do more, with its lock held.
func (b *base) drop(more func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	b.waiting.fail(object.Gone, "")
	more()
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

	// Of one that waits for a lock, or that sleeps until it is notified and then
	// waits for the lock.
	count     int    // how often it will hold the lock
	condition uint64 // that it sleeps or has slept for, 0 for none
	wait      uint64 // the number that its process gave the sleep
	ended     bool   // the sleep ended without a notice

	// Of one that waits for another version of a value.
	index   int
	version uint64
}

// line is the waiters, the longest waiting first.
type line []waiter

func (l *line) add(r *object.Request) { *l = append(*l, waiter{r: r}) }

// remove removes and returns the waiter of a request; ok says whether there was
// one.
func (l *line) remove(r *object.Request) (w waiter, ok bool) {
	i := slices.IndexFunc(*l, func(w waiter) bool { return w.r == r })
	if i < 0 {
		return w, false
	}
	w = (*l)[i]
	*l = slices.Delete(*l, i, i+1)
	return w, true
}

// fail refuses all waiting requests.
func (l *line) fail(code byte, text string) {
	for _, w := range *l {
		w.r.Fail(code, text)
	}
	*l = nil
}

// store is common to objects that keep values.
type store struct {
	base
	home    *object.Server
	version uint64 // of the last write
}

// Cell is an object's answer about one of its values.
type Cell struct {
	Done    bool           // what was asked for is done
	Version uint64         // of the write that set the value, unique in the object; 0 when there is no value
	Values  []object.Value // the value, or none
}

// cell is a value and its version.
type cell struct {
	value   object.Value
	version uint64
}

// keep makes a cell of a value that came in a message, and holds the objects that
// it names. The value is copied, or it could keep in memory all that came with it.
func (s *store) keep(v object.Value) cell {
	s.home.HoldRefs(v)
	s.version++
	return cell{v.Private(), s.version}
}

// reply answers with a cell, which may be nil, and whether what was asked for is
// done.
func reply(r object.Asked[Cell], done bool, c *cell) {
	if c == nil {
		r.Reply(Cell{Done: done})
		return
	}
	r.Reply(Cell{done, c.version, []object.Value{given(r.Request, c.value)}})
}

// given prepares a value for an answer: the objects that it names are held until
// it has arrived. A requester in this process gets a copy, since the value is
// about to be the user's.
func given(r *object.Request, v object.Value) object.Value {
	r.Holding(v)
	if r.Peer.Local() {
		return v.Private()
	}
	return v
}
