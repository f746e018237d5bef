package managed

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a semaphore. An owner is a number that the process gives
// each of its proxies.
const (
	SemaphoreAcquire byte = semaphoreOps + iota // owner: wait for a permit
	SemaphoreTry                                // owner: whether there was one
	SemaphoreRelease                            // owner: give one back, or add one
	SemaphoreForget                             // owner: it gives back what it has
	SemaphoreValue                              // how many there are
)

// semaphore is permits.
type semaphore struct {
	initial int
	bounded bool

	mu      sync.Mutex
	gone    bool
	value   int
	held    []permits // oldest first, none empty
	waiting []waiter
}

// owner is a proxy in a process.
type owner struct {
	peer *home.Peer
	id   uint64
}

// permits is how many somebody holds.
type permits struct {
	owner
	n int
}

// waiter is a request that waits for a permit.
type waiter struct {
	r  *home.Request
	by owner
}

func newSemaphore(n int, bounded bool) *semaphore {
	return &semaphore{initial: n, bounded: bounded, value: n}
}

// Serve takes a request.
func (s *semaphore) Serve(r *home.Request) {
	args := wire.Reader{B: r.Args}
	var by owner
	if r.Op != SemaphoreValue {
		by = owner{r.Peer, args.Uvarint()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		r.Fail(home.Gone, "")
	case args.Err != nil:
		r.Malformed()
	case r.Op == SemaphoreAcquire:
		s.waiting = append(s.waiting, waiter{r, by})
		s.grant()
	case r.Op == SemaphoreTry:
		got := s.value > 0
		if got {
			s.take(by)
		}
		number(r, int(bit(got)))
	case r.Op == SemaphoreRelease && s.bounded && s.value >= s.initial:
		r.Fail(TooOften, "")
	case r.Op == SemaphoreRelease:
		s.put(by)
		s.grant()
		r.Reply(nil, nil)
	case r.Op == SemaphoreForget:
		s.lose(func(o owner) bool { return o == by })
		r.Reply(nil, nil)
	case r.Op == SemaphoreValue:
		number(r, s.value)
	default:
		r.Malformed()
	}
}

// grant hands out what there is. The lock is held.
func (s *semaphore) grant() {
	for s.value > 0 && len(s.waiting) > 0 {
		w := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.take(w.by)
		w.r.Reply(nil, nil)
	}
}

func (s *semaphore) take(by owner) {
	s.value--
	i := slices.IndexFunc(s.held, func(p permits) bool { return p.owner == by })
	if i < 0 {
		i = len(s.held)
		s.held = append(s.held, permits{owner: by})
	}
	s.held[i].n++
}

// put takes a permit back: its holder's own, or another's of the same process,
// or, since a permit may be handed on, anybody's.
func (s *semaphore) put(by owner) {
	s.value++
	for _, of := range []func(owner) bool{
		func(o owner) bool { return o == by },
		func(o owner) bool { return o.peer == by.peer },
		func(owner) bool { return true },
	} {
		if i := slices.IndexFunc(s.held, func(p permits) bool { return of(p.owner) }); i >= 0 {
			if s.held[i].n--; s.held[i].n == 0 {
				s.held = slices.Delete(s.held, i, i+1)
			}
			return
		}
	}
}

// lose gives back what those hold who will not do it any more, as far as
// there were so many permits at first: those beyond are signals, which the one
// that acquired them has used up.
func (s *semaphore) lose(who func(owner) bool) {
	for _, p := range s.held {
		if who(p.owner) {
			s.value += min(p.n, max(0, s.initial-s.value))
		}
	}
	s.held = slices.DeleteFunc(s.held, func(p permits) bool { return who(p.owner) })
	s.grant()
}

// GiveUp takes a waiting request out.
func (s *semaphore) GiveUp(r *home.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w waiter) bool { return w.r == r })
	r.Fail(home.GivenUp, "")
}

// Left gives back what a process holds, however it went.
func (s *semaphore) Left(p *home.Peer, died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose(func(o owner) bool { return o.peer == p })
}

// Drop tells those who wait.
func (s *semaphore) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	for _, w := range s.waiting {
		w.r.Fail(home.Gone, "")
	}
	s.waiting = nil
}
