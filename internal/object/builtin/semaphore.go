package builtin

import (
	"slices"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of a semaphore. An owner is a number that a process gives each
// of its proxies.
const (
	SemaphoreAcquire object.Op[uint64, object.None] = semaphoreOps + iota // owner: wait for a permit
	SemaphoreTry     object.Op[uint64, bool]        = semaphoreOps + iota // owner: take a permit without waiting; whether one was free
	SemaphoreRelease object.Op[uint64, object.None] = semaphoreOps + iota // owner: give a permit back, or add one
	SemaphoreForget  object.Op[uint64, object.None] = semaphoreOps + iota // owner: the proxy ends, and gives back what it holds
	SemaphoreValue   object.Op[object.None, int]    = semaphoreOps + iota // how many permits are free
)

var semaphoreTable = object.Ops(
	object.On(SemaphoreAcquire, func(s *semaphore, r object.Asked[object.None], id uint64) {
		s.waiting = append(s.waiting, waiter{r: r.Request, by: owner{r.Peer, id}})
		s.grant()
	}),
	object.On(SemaphoreTry, func(s *semaphore, r object.Asked[bool], id uint64) {
		got := s.value > 0
		if got {
			s.take(owner{r.Peer, id})
		}
		r.Reply(got)
	}),
	object.On(SemaphoreRelease, func(s *semaphore, r object.Asked[object.None], id uint64) {
		if s.bounded && s.value >= s.initial {
			r.Fail(TooOften, "")
			return
		}
		s.put(owner{r.Peer, id})
		s.grant()
		r.Reply(object.None{})
	}),
	object.On(SemaphoreForget, func(s *semaphore, r object.Asked[object.None], id uint64) {
		s.lose(func(o owner) bool { return o == owner{r.Peer, id} })
		r.Reply(object.None{})
	}),
	object.On(SemaphoreValue, func(s *semaphore, r object.Asked[int], _ object.None) { r.Reply(s.value) }),
)

// semaphore is a number of permits.
type semaphore struct {
	base
	initial int
	bounded bool
	value   int
	held    []permits // oldest first, none empty
}

// permits is how many permits an owner holds.
type permits struct {
	owner
	n int
}

// Serve takes a request.
func (s *semaphore) Serve(r *object.Request) { serve(&s.base, s, semaphoreTable, r) }

// grant gives free permits to the waiters. The lock is held.
func (s *semaphore) grant() {
	for s.value > 0 && len(s.waiting) > 0 {
		w := s.waiting.first()
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

// put takes a permit back. It counts as the releaser's own, else as one of
// another proxy of the same process, else, since permits may be passed on, as any
// holder's.
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

// lose gives back the permits of owners that will not do so any more, up to the
// initial number of permits: those beyond it are signals, which are used up by
// being acquired.
func (s *semaphore) lose(who func(owner) bool) {
	for _, p := range s.held {
		if who(p.owner) {
			s.value += min(p.n, max(0, s.initial-s.value))
		}
	}
	s.held = slices.DeleteFunc(s.held, func(p permits) bool { return who(p.owner) })
	s.grant()
}

// Left gives back the permits that a process holds, whether it died or let go.
func (s *semaphore) Left(p *object.Session, died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose(func(o owner) bool { return o.peer == p })
}
