package managed

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
)

// The operations of a barrier.
const (
	BarrierWait  byte = barrierOps + iota // wait for the others; the answer is which of them this one was
	BarrierReset                          // whole again; who waits is told that it was broken
	BarrierAbort                          // break it
	BarrierState                          // the parties, how many wait, whether it is broken
)

// barrier is where so many parties wait for each other.
type barrier struct {
	parties int

	mu      sync.Mutex
	gone    bool
	broken  string // why, "" when it is whole
	waiting []*home.Request
}

func newBarrier(parties int) *barrier { return &barrier{parties: parties} }

// Serve takes a request.
func (b *barrier) Serve(r *home.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.gone:
		r.Fail(home.Gone, "")
	case r.Op == BarrierWait && b.broken != "":
		r.Fail(Broken, b.broken)
	case r.Op == BarrierWait:
		b.waiting = append(b.waiting, r)
		if len(b.waiting) < b.parties {
			return
		}
		for i, w := range b.waiting {
			number(w, i)
		}
		b.waiting = nil
	case r.Op == BarrierReset:
		b.fail("it was reset")
		b.broken = ""
		r.Reply(nil, nil)
	case r.Op == BarrierAbort:
		b.fail(r.Peer.Name + " has aborted it")
		r.Reply(nil, nil)
	case r.Op == BarrierState:
		number(r, b.parties, len(b.waiting), int(bit(b.broken != "")))
	default:
		r.Malformed()
	}
}

// fail breaks the barrier. The first reason is kept. The lock is held.
func (b *barrier) fail(why string) {
	if b.broken == "" {
		b.broken = why
	}
	for _, w := range b.waiting {
		w.Fail(Broken, b.broken)
	}
	b.waiting = nil
}

// GiveUp breaks the barrier: one of its parties does not wait any more.
func (b *barrier) GiveUp(r *home.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, r)
	r.Fail(home.GivenUp, "")
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
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

// Drop tells those who wait.
func (b *barrier) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	for _, w := range b.waiting {
		w.Fail(home.Gone, "")
	}
	b.waiting = nil
}
