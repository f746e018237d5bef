package builtin

import (
	"slices"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of a barrier.
const (
	BarrierWait  object.Op[object.None, int]         = barrierOps + iota // wait for the others; the answer is the position of this one among them, from 0
	BarrierReset object.Op[object.None, object.None] = barrierOps + iota // make the barrier whole; requests that wait fail as broken
	BarrierAbort object.Op[bool, object.None]        = barrierOps + iota // break the barrier; true: for a party whose context had ended before it came
	BarrierState object.Op[object.None, BarrierSays] = barrierOps + iota // the barrier's state
)

// BarrierSays is the state of a barrier.
type BarrierSays struct {
	Parties, Waiting int
	Broken           bool
}

var barrierTable = object.Ops(
	object.On(BarrierWait, (*barrier).wait),
	object.On(BarrierReset, func(b *barrier, r object.Asked[object.None], _ object.None) {
		b.fail("it was reset")
		b.broken = ""
		r.Reply(object.None{})
	}),
	object.On(BarrierAbort, func(b *barrier, r object.Asked[object.None], late bool) {
		if late {
			b.stopped(r.Request)
		}
		b.fail(r.Peer.Name + " has aborted it") // the first reason is kept
		r.Reply(object.None{})
	}),
	object.On(BarrierState, func(b *barrier, r object.Asked[BarrierSays], _ object.None) {
		r.Reply(BarrierSays{b.parties, len(b.waiting), b.broken != ""})
	}),
)

// barrier is where a number of parties wait for each other.
type barrier struct {
	base
	parties int
	broken  string // why it is broken, "" when it is whole
}

// Serve takes a request.
func (b *barrier) Serve(r *object.Request) { serve(&b.base, b, barrierTable, r) }

func (b *barrier) wait(r object.Asked[int], _ object.None) {
	if b.broken != "" {
		r.Fail(Broken, b.broken)
		return
	}
	if b.waiting.add(r.Request); len(b.waiting) < b.parties {
		return
	}
	if i := slices.IndexFunc(b.waiting, func(w waiter) bool { return !w.r.Wanted() }); i >= 0 {
		late := b.waiting[i].r
		b.waiting = slices.Delete(b.waiting, i, i+1) // its GiveUp is on its way
		b.stopped(late)
		return
	}
	for i, w := range b.waiting {
		object.Asked[int]{Request: w.r}.Reply(i)
	}
	b.waiting = nil
}

// fail breaks the barrier. The first reason is kept. The lock is held.
func (b *barrier) fail(why string) {
	if b.broken == "" {
		b.broken = why
	}
	b.waiting.fail(Broken, b.broken)
}

// GiveUp breaks the barrier if the request waited there, or would have: a party
// is missing now.
func (b *barrier) GiveUp(r *object.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waited := b.waiting.remove(r)
	r.Fail(object.GivenUp, "")
	if waited || r.Skipped() && r.Op == BarrierWait.Number() {
		b.stopped(r)
	}
}

func (b *barrier) stopped(r *object.Request) {
	switch gone, died := r.Peer.Gone(); {
	case died:
		b.fail(r.Peer.Name + " died")
	case gone:
		b.fail(r.Peer.Name + " has ended")
	default:
		b.fail("the context of a Wait in " + r.Peer.Name + " has ended")
	}
}

// Left breaks the barrier when a process that holds it dies.
func (b *barrier) Left(p *object.Session, died bool) {
	if !died {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail(p.Name + " died")
}
