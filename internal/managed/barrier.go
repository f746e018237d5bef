package managed

import "github.com/fiber-go/fiber/internal/home"

// The operations of a barrier.
const (
	BarrierWait  home.Op[home.None, int]         = barrierOps + iota // wait for the others; the answer is which of them this one was
	BarrierReset home.Op[home.None, home.None]   = barrierOps + iota // whole again; who waits is told that it was broken
	BarrierAbort home.Op[home.None, home.None]   = barrierOps + iota // break it
	BarrierState home.Op[home.None, BarrierSays] = barrierOps + iota // how it is
)

// BarrierSays is how a barrier is.
type BarrierSays struct {
	Parties, Waiting int
	Broken           bool
}

var barrierTable = home.Ops(
	home.On(BarrierWait, (*barrier).wait),
	home.On(BarrierReset, func(b *barrier, r home.Asked[home.None], _ home.None) {
		b.fail("it was reset")
		b.broken = ""
		r.Reply(home.None{})
	}),
	home.On(BarrierAbort, func(b *barrier, r home.Asked[home.None], _ home.None) {
		b.fail(r.Peer.Name + " has aborted it")
		r.Reply(home.None{})
	}),
	home.On(BarrierState, func(b *barrier, r home.Asked[BarrierSays], _ home.None) {
		r.Reply(BarrierSays{b.parties, len(b.waiting), b.broken != ""})
	}),
)

// barrier is where so many parties wait for each other.
type barrier struct {
	base
	parties int
	broken  string // why, "" when it is whole
}

// Serve takes a request.
func (b *barrier) Serve(r *home.Request) { serve(&b.base, b, barrierTable, r) }

func (b *barrier) wait(r home.Asked[int], _ home.None) {
	if b.broken != "" {
		r.Fail(Broken, b.broken)
		return
	}
	if b.waiting.add(r.Request); len(b.waiting) < b.parties {
		return
	}
	for i, w := range b.waiting {
		home.Asked[int]{Request: w.r}.Reply(i)
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

// GiveUp breaks the barrier: one of its parties does not wait any more.
func (b *barrier) GiveUp(r *home.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waited := b.waiting.remove(r)
	r.Fail(home.GivenUp, "")
	if waited {
		b.fail(r.Peer.Name + " has stopped waiting")
	}
}

// Left breaks the barrier when a process that has it dies.
func (b *barrier) Left(p *home.Peer, died bool) {
	if !died {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail(p.Name + " died")
}
