// Package pipe is pipes: two ends, each of which belongs to one process at a
// time, and what was sent to each and not yet read.
//
// The home of a pipe passes items on as they come, and keeps each until its
// reader has said that it has read it: when an end moves to another process,
// what was not read goes there. Sender and reader are not in step; the sender
// may be so far ahead, and no further, as the window says.
package pipe

import (
	"sync"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations on an end. Each names the generation that the caller takes the
// end to have: it grows by one with each owner, and who has an old one has lost
// the end.
const (
	claim    object.Op[of[object.None], granted]      = iota // make me the owner
	send     object.Op[of[object.Value], object.None] = iota // an item, for the other end
	read     object.Op[of[int], object.None]          = iota // so many items were read
	depart   object.Op[of[int], object.None]          = iota // so many items were read; the end's name is about to be sent to somebody
	stay     object.Op[of[object.None], object.None]  = iota // it was not sent after all
	leave    object.Op[of[int], object.None]          = iota // the owner's last word: so many more items were read
	closeEnd object.Op[of[int], object.None]          = iota // the owner's last word: nobody is to have it after me
	orphan   object.Op[of[object.None], object.None]  = iota // whoever was to claim it has ended: close it, unless it was claimed
	known    object.Op[of[object.None], object.None]  = iota // answered at once, for who has claimed the end to know that the claim has come
)

// The notices to an end's owner, with its generation.
const (
	item  object.Op[of[object.Value], object.None] = iota // an item from the other end
	room  object.Op[of[size], object.None]         = iota // so much was read at the other end
	ended object.Op[of[object.None], object.None]  = iota // the other end was closed
	moved object.Op[of[object.None], object.None]  = iota // the end is somebody else's from now on; from its owner, a leave is waited for
)

// of is what is said of an end that has a generation.
type of[Q any] struct {
	Gen  uint64
	What Q
}

// How an end moves: its name carries the generation, and whoever receives the
// name claims the end.
//
//	old owner                  home                        new owner
//	depart ──────────────────► tickets+1
//	─────────── the name, in an argument, a result or an item ───► gen 0: operations wait
//	                           the owner stays the same ◄───────── claim
//	◄──────────────────── moved
//	leave ───────────────────► owner, gen+1 ─────────────────────► granted
//	                           what is unread ───────────────────► items
//
// What the old owner sent comes before its leave, on the same connection, so
// nothing is lost or overtaken. A new owner that dies before its claim leaves the
// end to the old one; so whatever carries an end counts as received only when the
// end's home knows of the claim: see Port.Known.

// size is how much was sent, or read.
type size struct{ Items, Bytes int }

// granted answers a claim: the new generation, and what was sent to the other end
// and is not read.
type granted struct {
	Gen uint64
	Out size
}

// The codes of refusals.
const (
	gone = object.OwnCodes + 12 + iota // the end is another's, or closed
)

// End is one end of a pipe at its home, a home.Object.
type End struct {
	home  *object.Server
	other *End
	id    uint64 // its object's

	mu      *sync.Mutex // the pipe's; guards both ends
	gen     uint64
	owner   *object.Session // nil while nobody has it
	tickets int             // names that the owner has sent, or is about to send
	giver   *object.Session // who had it last, and left it to whoever takes it
	next    claiming        // a claim that waits for the owner's last word
	closed  bool
	unread  object.Deque // what was sent to this end and not read
	bytes   int          // its size
}

// Make makes a pipe in this process, and gives its ends as they are used here.
func Make(s *object.Server) (a, b *Port, err error) {
	mu := new(sync.Mutex)
	ends := [2]*End{{home: s, mu: mu, gen: 1, owner: s.Self()}, {home: s, mu: mu, gen: 1, owner: s.Self()}}
	ends[0].other, ends[1].other = ends[1], ends[0]
	var ports [2]*Port
	for i, e := range ends {
		ref, err := s.Make(e, false)
		if err != nil {
			return nil, nil, err // who was made lapses
		}
		e.id = ref.Object
		ports[i] = newPort(s, ref)
		ports[i].gen = 1
		close(ports[i].asked)
		close(ports[i].claimed)
	}
	return ports[0], ports[1], nil
}

// claiming is a claim, or none.
type claiming = object.Asked[granted]

var ends = object.Ops(
	object.On(known, func(_ *End, r object.Asked[object.None], _ of[object.None]) { r.Reply(object.None{}) }),
	on(claim, func(e *End, r claiming, _ object.None) {
		if e.next.Request != nil {
			r.Fail(gone, "")
			return
		}
		e.next = r
		if e.owner == nil {
			e.hand()
		} else {
			notify(e, e.owner, moved, object.None{})
		}
	}),
	on(send, func(e *End, _ object.Asked[object.None], v object.Value) { e.other.take(v) }),
	on(read, func(e *End, _ object.Asked[object.None], n int) { e.read(n) }),
	on(depart, func(e *End, _ object.Asked[object.None], n int) {
		e.read(n)
		e.tickets++
	}),
	on(stay, func(e *End, _ object.Asked[object.None], _ object.None) { e.tickets-- }),
	on(leave, func(e *End, _ object.Asked[object.None], n int) {
		e.read(n)
		if e.next.Request == nil { // else it has heard of it
			e.giver = e.owner
		}
		e.abandon()
	}),
	on(closeEnd, func(e *End, _ object.Asked[object.None], _ int) { e.close() }),
	on(orphan, func(e *End, _ object.Asked[object.None], _ object.None) { e.close() }),
)

// on has do serve an operation on an end that has the generation.
func on[Q, A any](op object.Op[of[Q], A], do func(e *End, r object.Asked[A], what Q)) object.Handler[*End] {
	return object.On(op, func(e *End, r object.Asked[A], q of[Q]) {
		if e.closed || q.Gen != e.gen {
			r.Fail(gone, "")
			return
		}
		do(e, r, q.What)
	})
}

// Serve takes a request.
func (e *End) Serve(r *object.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ends.Serve(e, r)
}

// notify tells an end's owner something.
func notify[Q any](e *End, p *object.Session, op object.Op[of[Q], object.None], what Q) {
	object.Notify(p, e.id, op, of[Q]{e.gen, what})
}

// live says whether the end has an owner that is to be told things.
func (e *End) live() bool { return e.owner != nil && e.next.Request == nil }

// take takes an item in, and passes it on. The lock is held.
func (e *End) take(v object.Value) {
	if e.closed {
		return
	}
	e.home.HoldRefs(v)
	e.unread.Push(v)
	e.bytes += v.Size()
	if e.live() {
		e.pass(v)
	}
}

func (e *End) pass(v object.Value) { notify(e, e.owner, item, v) }

// read forgets the n oldest items, and tells their sender. The lock is held.
func (e *End) read(n int) {
	bytes := 0
	n = min(n, e.unread.Len())
	for range n {
		v := e.unread.Pop()
		bytes += v.Size()
		e.home.ReleaseRefs(v)
	}
	e.bytes -= bytes
	if o := e.other; n > 0 && o.live() {
		notify(o, o.owner, room, size{n, bytes})
	}
}

// abandon has the end without its owner: it is the next one's, or on its way
// to somebody, or nobody's. The lock is held.
func (e *End) abandon() {
	e.owner = nil
	switch {
	case e.next.Request != nil:
		e.hand()
	case e.tickets <= 0:
		e.close()
	}
}

// hand makes the one who claims the end its owner. The lock is held.
func (e *End) hand() {
	r, o := e.next, e.other
	e.next, e.owner = claiming{}, nil
	if !r.Wanted() {
		e.close()
		return
	}
	if e.giver != nil {
		notify(e, e.giver, moved, object.None{})
	}
	e.gen++
	e.owner, e.giver, e.tickets = r.Peer, nil, 0
	r.Reply(granted{e.gen, size{o.unread.Len(), o.bytes}})
	for _, v := range e.unread.All() {
		e.pass(v)
	}
	if o.closed {
		notify(e, e.owner, ended, object.None{})
	}
}

// close closes the end and tells the other one's owner. The lock is held.
func (e *End) close() {
	if e.closed {
		return
	}
	e.closed = true
	if e.next.Request != nil {
		e.next.Fail(gone, "")
	}
	for _, v := range e.unread.All() {
		e.home.ReleaseRefs(v)
	}
	e.owner, e.next, e.unread, e.bytes = nil, claiming{}, object.Deque{}, 0
	if o := e.other; o.live() {
		notify(o, o.owner, ended, object.None{})
	}
}

// GiveUp ends a claim. What the owner has sent is still waited for.
func (e *End) GiveUp(r *object.Request) { r.Fail(object.GivenUp, "") }

// Left tells that a process has died, or has let go of the end.
func (e *End) Left(p *object.Session, _ bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owner == p && !p.Holds(e.id) { // it may have come back to it
		notify(e, p, ended, object.None{}) // should it live on
		e.abandon()
	}
}

// Drop closes the end; its owner, if there is one, may read what it has got.
func (e *End) Drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live() {
		notify(e, e.owner, ended, object.None{})
	}
	e.close()
}
