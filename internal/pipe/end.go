// Package pipe is pipes: two ends, each of which belongs to one process at a
// time, and what was sent to each and not yet read.
//
// The home of a pipe passes items on as they come, and keeps each until its
// reader has said that it has read it: when an end moves to another process,
// what was not read goes there. Sender and reader are not in step; the sender
// may be so far ahead, and no further, as the window says.
package pipe

import (
	"encoding/binary"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations on an end. The first argument of each is the generation that
// the caller takes the end to have: it grows by one with each owner, and who
// has an old one has lost the end.
const (
	claim    byte = iota // make me the owner; the answer is the new generation, and how much of what was sent is not read
	send                 // an item, for the other end
	read                 // so many items were read
	depart               // so many items were read; the end's name is about to be sent to somebody
	stay                 // it was not sent after all
	leave                // the owner's last word: so many more items were read
	closeEnd             // the owner's last word: nobody is to have it after me
	orphan               // whoever was to claim it has ended: close it, unless it was claimed
	known                // answered at once, for who has claimed the end to know that the claim has come
)

// The notices to an end's owner. The first argument is its generation.
const (
	item  byte = iota // an item from the other end
	room              // so many items, of so many bytes, were read at the other end
	ended             // the other end was closed
	moved             // the end is somebody else's from now on; from its owner, a leave is waited for
)

// The codes of refusals.
const (
	gone = home.OwnCodes + iota // the end is another's, or closed
)

// End is one end of a pipe at its home, a home.Object.
type End struct {
	home  *home.Home
	other *End
	id    uint64 // its object's

	mu      *sync.Mutex // the pipe's; guards both ends
	gen     uint64
	owner   *home.Peer    // nil while nobody has it
	tickets int           // names that the owner has sent, or is about to send
	giver   *home.Peer    // who had it last, and left it to whoever takes it
	next    *home.Request // a claim that waits for the owner's last word
	closed  bool
	unread  deque // what was sent to this end and not read
	bytes   int   // its size
}

// Make makes a pipe in this process, and gives its ends as they are used here.
func Make(h *home.Home) (a, b *Port, err error) {
	mu := new(sync.Mutex)
	ends := [2]*End{{home: h, mu: mu, gen: 1, owner: h.Self()}, {home: h, mu: mu, gen: 1, owner: h.Self()}}
	ends[0].other, ends[1].other = ends[1], ends[0]
	var ports [2]*Port
	for i, e := range ends {
		ref, err := h.Make(e, false)
		if err != nil {
			return nil, nil, err // who was made lapses
		}
		e.id = ref.Object
		ports[i] = newPort(h, ref)
		ports[i].gen = 1
		close(ports[i].asked)
		close(ports[i].claimed)
	}
	return ports[0], ports[1], nil
}

// Serve takes a request.
func (e *End) Serve(r *home.Request) {
	args := wire.Reader{B: r.Args}
	gen := args.Uvarint()
	if args.Err != nil {
		r.Malformed()
		return
	}
	if r.Op == known {
		r.Reply(nil, nil)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || gen != e.gen {
		r.Fail(gone, "")
		return
	}
	switch r.Op {
	case claim:
		if e.next != nil {
			r.Fail(gone, "")
			return
		}
		e.next = r
		if e.owner == nil {
			e.hand()
		} else {
			e.owner.Notify(e.id, moved, binary.AppendUvarint(nil, gen))
		}
	case send:
		if values, err := home.UnpackValues(&args, r.Value); err == nil && len(values) == 1 {
			e.other.take(values[0])
		}
	case read:
		e.read(args.Int())
	case depart:
		e.read(args.Int())
		e.tickets++
	case stay:
		e.tickets--
	case leave:
		e.read(args.Int())
		if e.next == nil { // else it has heard of it
			e.giver = e.owner
		}
		e.abandon()
	case closeEnd, orphan:
		e.close()
	default:
		r.Malformed()
	}
}

// live says whether the end has an owner that is to be told things.
func (e *End) live() bool { return e.owner != nil && e.next == nil }

// take takes an item in, and passes it on. The lock is held.
func (e *End) take(v home.Value) {
	if e.closed {
		return
	}
	e.home.HoldRefs(v)
	e.unread.push(v)
	e.bytes += v.Size()
	if e.live() {
		e.pass(v)
	}
}

func (e *End) pass(v home.Value) {
	args, frames := home.PackValues(binary.AppendUvarint(nil, e.gen), v)
	e.owner.Notify(e.id, item, args, frames...)
}

// read forgets the n oldest items, and tells their sender. The lock is held.
func (e *End) read(n int) {
	bytes := 0
	n = min(n, e.unread.len())
	for range n {
		v := e.unread.pop()
		bytes += v.Size()
		e.home.ReleaseRefs(v)
	}
	e.bytes -= bytes
	if o := e.other; n > 0 && o.live() {
		args := binary.AppendUvarint(nil, o.gen)
		args = binary.AppendUvarint(args, uint64(n))
		o.owner.Notify(o.id, room, binary.AppendUvarint(args, uint64(bytes)))
	}
}

// abandon has the end without its owner: it is the next one's, or on its way
// to somebody, or nobody's. The lock is held.
func (e *End) abandon() {
	e.owner = nil
	switch {
	case e.next != nil:
		e.hand()
	case e.tickets <= 0:
		e.close()
	}
}

// hand makes the one who claims the end its owner. The lock is held.
func (e *End) hand() {
	r, o := e.next, e.other
	e.next, e.owner = nil, nil
	if !r.Wanted() {
		e.close()
		return
	}
	if e.giver != nil {
		e.giver.Notify(e.id, moved, binary.AppendUvarint(nil, e.gen))
	}
	e.gen++
	e.owner, e.giver, e.tickets = r.Peer, nil, 0
	args := binary.AppendUvarint(nil, e.gen)
	args = binary.AppendUvarint(args, uint64(o.unread.len()))
	r.Reply(binary.AppendUvarint(args, uint64(o.bytes)), nil)
	for _, v := range e.unread.all() {
		e.pass(v)
	}
	if o.closed {
		e.owner.Notify(e.id, ended, binary.AppendUvarint(nil, e.gen))
	}
}

// close closes the end and tells the other one's owner. The lock is held.
func (e *End) close() {
	if e.closed {
		return
	}
	e.closed = true
	if e.next != nil {
		e.next.Fail(gone, "")
	}
	for _, v := range e.unread.all() {
		e.home.ReleaseRefs(v)
	}
	e.owner, e.next, e.unread, e.bytes = nil, nil, deque{}, 0
	if o := e.other; o.live() {
		o.owner.Notify(o.id, ended, binary.AppendUvarint(nil, o.gen))
	}
}

// GiveUp ends a claim. What the owner has sent is still waited for.
func (e *End) GiveUp(r *home.Request) { r.Fail(home.GivenUp, "") }

// Left tells that a process has died, or has let go of the end.
func (e *End) Left(p *home.Peer, _ bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owner == p && !p.Holds(e.id) { // it may have come back to it
		p.Notify(e.id, ended, binary.AppendUvarint(nil, e.gen)) // should it live on
		e.abandon()
	}
}

// Drop closes the end; its owner, if there is one, may read what it has got.
func (e *End) Drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live() {
		e.owner.Notify(e.id, ended, binary.AppendUvarint(nil, e.gen))
	}
	e.close()
}
