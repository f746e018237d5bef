package builtin

import (
	"slices"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of locks, semaphores and conditions. A process numbers its proxies;
// the owner of a lock is a process and such a number.
const (
	LockAcquire   object.Op[LockWant, LockGot]       = lockOps + iota // wait for a permit, and take it
	LockRelease   object.Op[uint64, object.None]     = lockOps + iota // owner: give a permit back
	LockReturn    object.Op[LockBack, object.None]   = lockOps + iota // give back a permit that came after its owner had left, or that was abandoned
	LockForget    object.Op[uint64, object.None]     = lockOps + iota // the owner is gone
	LockFree      object.Op[object.None, int]        = lockOps + iota // how many permits are free
	LockCondition object.Op[object.None, uint64]     = lockOps + iota // a number for another condition
	LockWait      object.Op[LockSleep, LockGot]      = lockOps + iota // release, wait for a notice, acquire
	LockEndWait   object.Op[uint64, object.None]     = lockOps + iota // wait: end the sleep without a notice
	LockNotify    object.Op[LockNotice, object.None] = lockOps + iota // wake some
)

// LockWant says which owner wants a permit, and whether only if one is free now.
type LockWant struct {
	Owner uint64
	Try   bool
}

// LockGot says how a wait has ended. Got is false only if no permit was free for
// a LockWant with Try.
type LockGot struct {
	Got       bool
	Abandoned bool // the last holder ended without a release
	Ended     bool // the sleep ended without a notice
}

// LockBack says which owner gives the lock back, whether the lock counts as
// abandoned, and whether all of the owner's acquisitions end, or one.
type LockBack struct {
	Owner            uint64
	Abandoned, Whole bool
}

// LockSleep says which owner waits for a notice of which condition; Wait is the
// number of the sleep, for LockEndWait.
type LockSleep struct{ Owner, Condition, Wait uint64 }

// LockNotice says how many of a condition's sleepers to wake, 0 for all.
type LockNotice struct {
	Owner, Condition uint64
	N                int
}

var lockTable = object.Ops(
	object.On(LockAcquire, (*lock).acquire),
	object.On(LockRelease, (*lock).release),
	object.On(LockReturn, func(l *lock, r object.Asked[object.None], b LockBack) {
		by := owner{r.Peer, b.Owner}
		switch i := l.holding(by); {
		case i >= 0:
			l.abandoned = l.abandoned || b.Abandoned
			if b.Whole {
				l.held[i].n = 1
			}
			l.put(by)
		case !l.exclusive && !(l.bounded && l.free >= l.initial): // another process's release counted as this owner's
			l.put(by)
		}
		r.Reply(object.None{})
	}),
	object.On(LockForget, func(l *lock, r object.Asked[object.None], id uint64) {
		l.lose(func(h hold) bool { return h.owner == owner{r.Peer, id} })
		r.Reply(object.None{})
	}),
	object.On(LockFree, func(l *lock, r object.Asked[int], _ object.None) { r.Reply(l.free) }),
	object.On(LockCondition, func(l *lock, r object.Asked[uint64], _ object.None) {
		l.conditions++
		r.Reply(l.conditions)
	}),
	object.On(LockWait, func(l *lock, r object.Asked[LockGot], s LockSleep) {
		by := owner{r.Peer, s.Owner}
		if l.isHeld(r.Request, by) {
			l.sleeping = append(l.sleeping, waiter{r: r.Request, by: by, count: l.held[0].n, condition: s.Condition, wait: s.Wait})
			l.held[0].n = 1
			l.put(by)
		}
	}),
	object.On(LockEndWait, func(l *lock, r object.Asked[object.None], wait uint64) {
		l.wake(1, func(w *waiter) bool {
			w.ended = w.by.peer == r.Peer && w.wait == wait
			return w.ended
		})
	}),
	object.On(LockNotify, func(l *lock, r object.Asked[object.None], n LockNotice) {
		if l.isHeld(r.Request, owner{r.Peer, n.Owner}) {
			l.wake(n.N, func(w *waiter) bool { return w.condition == n.Condition })
			r.Reply(object.None{})
		}
	}),
)

// lock is a number of permits, and who holds them. A Lock has one.
type lock struct {
	base
	exclusive bool // only the holder can release it; if the holder ends instead, the next one is told
	reentrant bool // the holder may acquire it again
	bounded   bool // there are never more permits than at first
	initial   int
	free      int
	held      []hold // oldest first, none empty
	abandoned bool   // the next holder is told

	conditions uint64 // how many there are
	sleeping   line
}

// hold is how many permits an owner has, or how often it has acquired the one of
// a reentrant lock.
type hold struct {
	owner
	n int
}

// Serve takes a request.
func (l *lock) Serve(r *object.Request) {
	if r.Op >= LockCondition.Number() && !l.reentrant {
		r.Malformed()
		return
	}
	serve(&l.base, l, lockTable, r)
}

func (l *lock) acquire(r object.Asked[LockGot], want LockWant) {
	by := owner{r.Peer, want.Owner}
	i := l.holding(by)
	switch {
	case l.reentrant && i >= 0:
		l.held[i].n++
		r.Reply(LockGot{Got: true})
	case want.Try && l.free == 0:
		r.Reply(LockGot{})
	default:
		l.waiting = append(l.waiting, waiter{r: r.Request, by: by, count: 1})
		l.grant()
	}
}

func (l *lock) release(r object.Asked[object.None], id uint64) {
	by := owner{r.Peer, id}
	switch {
	case l.exclusive && !l.isHeld(r.Request, by): // and is refused
	case l.bounded && l.free >= l.initial:
		r.Fail(TooOften, "")
	default:
		l.put(by)
		r.Reply(object.None{})
	}
}

// holding finds an owner among the holders; it returns -1 if it is none.
func (l *lock) holding(by owner) int {
	return slices.IndexFunc(l.held, func(h hold) bool { return h.owner == by })
}

// isHeld says whether an owner holds the lock, and otherwise refuses the request.
func (l *lock) isHeld(r *object.Request, by owner) bool {
	switch {
	case len(l.held) == 0:
		r.Fail(NotHeld, "nobody holds it")
	case l.held[0].owner == by:
		return true
	case l.held[0].peer == by.peer:
		r.Fail(NotHeld, "another proxy of the same process holds it")
	default:
		r.Fail(NotHeld, l.held[0].peer.Name+" holds it")
	}
	return false
}

// grant gives free permits to the waiters, and a reentrant lock to all whose owner has got it.
func (l *lock) grant() {
	for {
		next := 0
		if l.free == 0 {
			next = slices.IndexFunc(l.waiting, func(w waiter) bool { return l.reentrant && l.holding(w.by) >= 0 })
		}
		if next < 0 || next == len(l.waiting) {
			return
		}
		w := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		if !w.r.Wanted() {
			continue
		}
		i := l.holding(w.by)
		if i < 0 || !l.reentrant {
			l.free--
		}
		if i >= 0 {
			l.held[i].n += w.count
		} else {
			l.held = append(l.held, hold{w.by, w.count})
		}
		object.Asked[LockGot]{Request: w.r}.Reply(LockGot{Got: true, Abandoned: l.abandoned, Ended: w.ended})
		l.abandoned = false
	}
}

// put takes a permit back. It counts as the releaser's own, else as one of
// another proxy of the same process, else, since the permits of a semaphore may
// be passed on, as any holder's. The permit of a reentrant lock is free after the
// last of several releases.
func (l *lock) put(by owner) {
	i := l.holding(by)
	if i < 0 {
		i = slices.IndexFunc(l.held, func(h hold) bool { return h.peer == by.peer })
	}
	if i = max(i, 0); i < len(l.held) {
		l.held[i].n--
		if l.held[i].n == 0 {
			l.held = slices.Delete(l.held, i, i+1)
		} else if l.reentrant {
			return
		}
	}
	l.free++
	l.grant()
}

// lose gives back the permits of owners that will not do so any more, up to the
// initial number of permits: those beyond it are signals, which are used up by
// being acquired. If a lock is lost, all sleepers are woken, since its holder may
// have been the one that was to notify them.
func (l *lock) lose(who func(hold) bool) {
	for _, h := range l.held {
		if who(h) {
			l.free += min(h.n, max(0, l.initial-l.free))
		}
	}
	before := len(l.held)
	l.held = slices.DeleteFunc(l.held, who)
	if l.exclusive && len(l.held) < before {
		l.abandoned = true
		l.wake(0, func(*waiter) bool { return true })
	}
	l.grant()
}

// wake makes the first n sleepers that are meant wait for the lock; 0 stands for
// all of them.
func (l *lock) wake(n int, meant func(*waiter) bool) {
	woken := 0
	l.sleeping = slices.DeleteFunc(l.sleeping, func(w waiter) bool {
		if n > 0 && woken == n || !meant(&w) {
			return false
		}
		l.waiting = append(l.waiting, w)
		woken++
		return true
	})
	l.grant()
}

// GiveUp removes a waiting request. If it had a notice, that goes to another
// sleeper.
func (l *lock) GiveUp(r *object.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sleeping.remove(r)
	w, waited := l.waiting.remove(r)
	r.Fail(object.GivenUp, "")
	if waited && w.condition > 0 && !w.ended {
		l.wake(1, func(other *waiter) bool { return other.condition == w.condition })
	}
}

// Left takes its permits from a process that no longer holds the object, whether
// it died or let go.
func (l *lock) Left(p *object.Session, died bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(func(h hold) bool { return h.peer == p })
}

// Drop refuses all requests that wait for a permit or for a notice.
func (l *lock) Drop() {
	l.drop(func() { l.sleeping.fail(object.Gone, "") })
}
