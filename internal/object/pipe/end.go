// Package pipe implements pipes: the two ends at their home (End), and an end as
// its owner uses it (Port).
//
// Each end belongs to one process at a time. The home passes items on as they
// come, and keeps each until its reader has said that it has read it: when an
// end moves to another process, unread items go there. A sender does not wait
// for each item to be read, but stays ahead of the reader by at most the window.
package pipe

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations on an end. Each carries the end's generation as the caller
// knows it. The generation grows by one with each owner: a process that knows
// only an older one has lost the end.
const (
	claim    object.Op[of[object.None], granted]      = iota // make me the owner
	send     object.Op[of[object.Value], object.None] = iota // an item, for the other end
	read     object.Op[of[int], object.None]          = iota // so many items were read
	depart   object.Op[of[int], object.None]          = iota // so many items were read; the end's name is about to be sent to a process
	leave    object.Op[of[int], object.None]          = iota // the owner's last word: so many more items were read
	closeEnd object.Op[of[int], object.None]          = iota // the owner's last word: the end closes, unless it was claimed
)

// The notices to an end's owner, with its generation.
const (
	item    object.Op[of[object.Value], object.None] = iota // an item from the other end
	room    object.Op[of[int], object.None]          = iota // items of so much weight were read at the other end
	ended   object.Op[of[object.None], object.None]  = iota // the other end was closed
	moved   object.Op[of[object.None], object.None]  = iota // the end belongs to another process from now on; the home waits for the owner's leave
	claimed object.Op[of[object.None], object.None]  = iota // to the next owner: the home knows of the claim
)

// of is a message about an end of a generation.
type of[Q any] struct {
	Gen  uint64
	What Q
}

// Append appends the packed message to b and frames.
func (o *of[Q]) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	return object.ByHand(&o.What).Append(wire.AppendUvarint(b, o.Gen), frames)
}

// Read takes a packed message.
func (o *of[Q]) Read(in *wire.Reader) {
	o.Gen = in.Uvarint()
	object.ByHand(&o.What).Read(in)
}

// How an end moves: its name carries the generation, and whoever receives the
// name claims the end.
//
//	old owner                  home                        new owner
//	depart ──────────────────► a name is on its way
//	─────────── the name, in an argument, a result or an item ───► gen 0: operations wait
//	                           the owner stays the same ◄───────── claim
//	◄──────────────────── moved  claimed ────────────────────────►
//	leave ───────────────────► owner, gen+1 ─────────────────────► granted
//	                           what is unread ───────────────────► items
//
// What the old owner sent comes before its leave, on the same connection, so
// nothing is lost or overtaken. A new owner that dies before its claim leaves the
// end to the old one; so whatever carries an end counts as received only when the
// end's home knows of the claim: see Port.Known.

// granted answers a claim: the new generation, and the weight of what was sent
// to the other end and is still unread.
type granted struct {
	Gen uint64
	Out int
}

// The codes of refusals.
const (
	gone = object.OwnCodes + 12 + iota // the end belongs to another process, or is closed
)

// End is one end of a pipe at its home, an object.Object.
type End struct {
	home  *object.Server
	other *End
	id    uint64 // its object's

	mu     *sync.Mutex // the pipe's; guards both ends
	gen    uint64
	owner  *object.Session // nil while the end has no owner
	named  bool            // the owner has sent the end's name, or is about to
	giver  *object.Session // the last owner, which has left the end to the next
	next   claiming        // a claim that waits for the owner's last word
	closed bool
	unread []object.Value // sent to this end and not read
	weight int            // of these
}

// Describe says who has the end.
func (e *End) Describe(o *event.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.Kind, o.Length = "end of a pipe", len(e.unread); e.owner != nil {
		o.Holder = e.owner.Name
	}
}

// Make makes a pipe whose home, and whose ends' first owner, is this process.
func Make(s *object.Server) (a, b *Port, err error) {
	mu := new(sync.Mutex)
	ends := [2]*End{{home: s, mu: mu, gen: 1, owner: s.Self()}, {home: s, mu: mu, gen: 1, owner: s.Self()}}
	ends[0].other, ends[1].other = ends[1], ends[0]
	var ports [2]*Port
	for i, e := range ends {
		ref, err := s.Make(e, false)
		if err != nil {
			return nil, nil, err // an end that was made lapses
		}
		e.id = ref.Object
		ports[i] = newPort(s, ref, 1)
	}
	return ports[0], ports[1], nil
}

// claiming is a claim, or none.
type claiming = object.Asked[granted]

var ends = object.Ops(
	on(claim, func(e *End, r claiming, _ object.None) {
		// A claim over a later connection than the hold is one of a port that is gone, and whose process would not be missed here.
		if e.next.Request != nil || !slices.Contains(e.home.Holders(e.id), r.Peer) {
			r.Fail(gone, "")
			return
		}
		e.next = r
		notify(e, r.Peer, claimed, object.None{})
		if e.owner == nil {
			e.hand()
		} else {
			notify(e, e.owner, moved, object.None{})
		}
	}),
	on(send, func(e *End, r object.Asked[object.None], v object.Value) {
		if !r.Peer.Local() && !e.other.fits(v) {
			r.Breach("a pipe's end sends more than its window holds")
			return
		}
		e.other.take(v)
		r.Reply(object.None{})
	}),
	on(read, func(e *End, _ object.Asked[object.None], n int) { e.read(n) }),
	on(depart, func(e *End, _ object.Asked[object.None], n int) {
		e.read(n)
		e.named = true
	}),
	on(leave, func(e *End, _ object.Asked[object.None], n int) {
		e.read(n)
		if e.next.Request == nil { // else the owner has had its moved notice
			e.giver = e.owner
		}
		e.abandon()
	}),
	on(closeEnd, func(e *End, _ object.Asked[object.None], _ int) { e.close() }),
)

// on makes do the handler of an operation, and refuses it for an end that is
// closed or has another generation.
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

// notify sends a notice about an end to p, its owner or last owner.
func notify[Q any](e *End, p *object.Session, op object.Op[of[Q], object.None], what Q) {
	object.Notify(p, e.id, op, of[Q]{Gen: e.gen, What: what})
}

// live says whether the end has an owner that wants notices, and no claim waits.
func (e *End) live() bool { return e.owner != nil && e.next.Request == nil }

// take adds an item to the unread ones, and passes it on. The lock is held.
func (e *End) take(v object.Value) {
	if e.closed {
		return
	}
	e.home.HoldRefs(v)
	e.unread = append(e.unread, v)
	e.weight += weight(v)
	if e.live() {
		e.pass(v)
	}
}

// fits says whether a sender that keeps to the window may have sent v. It sends the
// last item while the others leave some of the window, and any of them may be the
// last: those of several goroutines overtake each other. The lock is held.
func (e *End) fits(v object.Value) bool {
	if e.weight < window {
		return true
	}
	last := weight(v)
	for _, u := range e.unread { // at most windowItems and the last
		last = max(last, weight(u))
	}
	return e.weight+weight(v)-last < window
}

func (e *End) pass(v object.Value) { notify(e, e.owner, item, v) }

// read removes the n oldest items, and tells their sender. The lock is held.
func (e *End) read(n int) {
	sum := 0
	for _, v := range object.Shift(&e.unread, max(0, min(n, len(e.unread)))) {
		sum += weight(v)
		e.home.ReleaseRefs(v)
	}
	e.weight -= sum
	if o := e.other; sum > 0 && o.live() {
		notify(o, o.owner, room, sum)
	}
}

// abandon takes the end from its owner. If a claim waits, the end passes on; if
// its name is on the way, the end waits for a claim; otherwise the end closes.
// The lock is held.
func (e *End) abandon() {
	e.owner = nil
	switch {
	case e.next.Request != nil:
		e.hand()
	case !e.named:
		e.close()
	}
}

// hand makes the claiming process the owner. The lock is held.
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
	e.owner, e.giver, e.named = r.Peer, nil, false
	r.Reply(granted{e.gen, o.weight})
	for _, v := range e.unread {
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
	e.home.ReleaseRefs(e.unread...)
	e.owner, e.next, e.unread, e.weight = nil, claiming{}, nil, 0
	if o := e.other; o.live() {
		notify(o, o.owner, ended, object.None{})
	}
}

// GiveUp answers a claim, or any other request. If a claim waits, the end closes
// when it would have passed on, after the owner's last word.
func (e *End) GiveUp(r *object.Request) { r.Fail(object.GivenUp, "") }

// Left says that a process has died, or has let go of the end.
func (e *End) Left(p *object.Session, _ bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owner == p && !slices.Contains(e.home.Holders(e.id), p) { // the end may have come back to p
		notify(e, p, ended, object.None{}) // in case p lives on
		e.abandon()
	}
}

// Drop closes the end. Its owner may still read the items that it has received.
func (e *End) Drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live() {
		notify(e, e.owner, ended, object.None{})
	}
	e.close()
}
