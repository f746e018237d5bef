package builtin

import "github.com/fiber-go/fiber/internal/object"

// The operations of a lock, and of the conditions that go with a reentrant lock.
// An owner is a number that a process gives each of its proxies. "abandoned" in
// an answer says whether the last holder ended without a release.
const (
	LockAcquire   object.Op[uint64, bool]            = lockOps + iota // owner: wait for the lock; abandoned
	LockTry       object.Op[uint64, LockTried]       = lockOps + iota // owner
	LockRelease   object.Op[uint64, object.None]     = lockOps + iota // owner
	LockReturn    object.Op[LockBack, object.None]   = lockOps + iota // give back a lock that came too late, or should not have come
	LockForget    object.Op[uint64, object.None]     = lockOps + iota // owner: the proxy ends
	LockCondition object.Op[object.None, uint64]     = lockOps + iota // a number for another condition
	LockWait      object.Op[LockSleep, LockWoken]    = lockOps + iota // release, wait for a notice, acquire
	LockEndWait   object.Op[uint64, object.None]     = lockOps + iota // wait: end the sleep without a notice
	LockNotify    object.Op[LockNotice, object.None] = lockOps + iota // wake some
)

// LockTried says whether the lock was free.
type LockTried struct{ Free, Abandoned bool }

// LockBack says which owner gives the lock back, whether the lock counts as
// abandoned, and whether all of the owner's acquisitions end, or one.
type LockBack struct {
	Owner            uint64
	Abandoned, Whole bool
}

// LockSleep says which owner waits for a notice of which condition; Wait is the
// number of the sleep, for LockEndWait.
type LockSleep struct{ Owner, Condition, Wait uint64 }

// LockWoken says how a sleep has ended. The lock is held again.
type LockWoken struct {
	Abandoned bool
	Ended     bool // without a notice
}

// LockNotice says how many of a condition's sleepers to wake, 0 for all.
type LockNotice struct {
	Owner, Condition uint64
	N                int
}

var lockTable = object.Ops(
	object.On(LockAcquire, (*lock).acquire),
	object.On(LockTry, (*lock).try),
	object.On(LockRelease, func(l *lock, r object.Asked[object.None], id uint64) {
		if l.isHeld(r.Request, id) {
			l.release()
			r.Reply(object.None{})
		}
	}),
	object.On(LockReturn, func(l *lock, r object.Asked[object.None], b LockBack) {
		if l.holder == (owner{r.Peer, b.Owner}) {
			l.abandoned = l.abandoned || b.Abandoned
			if b.Whole {
				l.count = 1
			}
			l.release()
		}
		r.Reply(object.None{})
	}),
	object.On(LockForget, func(l *lock, r object.Asked[object.None], id uint64) {
		if l.holder == (owner{r.Peer, id}) {
			l.abandon()
		}
		r.Reply(object.None{})
	}),
	object.On(LockCondition, func(l *lock, r object.Asked[uint64], _ object.None) {
		l.conditions++
		r.Reply(l.conditions)
	}),
	object.On(LockWait, (*lock).sleep),
	object.On(LockEndWait, func(l *lock, r object.Asked[object.None], wait uint64) {
		l.wake(1, func(w *waiter) bool {
			w.ended = w.by.peer == r.Peer && w.wait == wait
			return w.ended
		})
	}),
	object.On(LockNotify, func(l *lock, r object.Asked[object.None], n LockNotice) {
		if l.isHeld(r.Request, n.Owner) {
			l.wake(n.N, func(w *waiter) bool { return w.condition == n.Condition })
			r.Reply(object.None{})
		}
	}),
)

// lock is a lock, with the conditions that go with it.
type lock struct {
	base
	reentrant  bool
	holder     owner  // peer is nil when the lock is free
	count      int    // how often the holder has acquired it
	abandoned  bool   // the next holder is told
	conditions uint64 // how many there are
	sleeping   line
}

// Serve takes a request.
func (l *lock) Serve(r *object.Request) {
	if r.Op >= LockCondition.Number() && !l.reentrant {
		r.Malformed()
		return
	}
	serve(&l.base, l, lockTable, r)
}

func (l *lock) acquire(r object.Asked[bool], id uint64) {
	by := owner{r.Peer, id}
	if l.reentrant && l.holder == by {
		l.count++
		r.Reply(false)
		return
	}
	l.waiting = append(l.waiting, waiter{r: r.Request, by: by, count: 1})
	l.grant()
}

func (l *lock) try(r object.Asked[LockTried], id uint64) {
	by := owner{r.Peer, id}
	switch {
	case l.reentrant && l.holder == by:
		l.count++
		r.Reply(LockTried{Free: true})
	case l.holder.peer != nil:
		r.Reply(LockTried{})
	default:
		r.Reply(LockTried{Free: true, Abandoned: l.take(by, 1)})
	}
}

func (l *lock) sleep(r object.Asked[LockWoken], s LockSleep) {
	if l.isHeld(r.Request, s.Owner) {
		l.sleeping = append(l.sleeping, waiter{r: r.Request, by: l.holder, count: l.count, condition: s.Condition, wait: s.Wait})
		l.count = 1
		l.release()
	}
}

// isHeld says whether the requester's proxy holds the lock, and otherwise refuses
// the request.
func (l *lock) isHeld(r *object.Request, id uint64) bool {
	by := owner{r.Peer, id}
	if l.holder != by {
		r.Fail(NotHeld, l.whose(by))
	}
	return l.holder == by
}

// whose says in words who holds the lock; by does not.
func (l *lock) whose(by owner) string {
	switch l.holder.peer {
	case nil:
		return "nobody holds it"
	case by.peer:
		return "another proxy of the same process holds it"
	}
	return l.holder.peer.Name + " holds it"
}

// take gives the free lock to an owner, and says whether it was abandoned. The
// mutex is held.
func (l *lock) take(by owner, count int) (abandoned bool) {
	abandoned = l.abandoned
	l.holder, l.count, l.abandoned = by, count, false
	return abandoned
}

// grant gives the lock to the next waiter, if it is free.
func (l *lock) grant() {
	for l.holder.peer == nil && len(l.waiting) > 0 {
		w := l.waiting.first()
		abandoned := l.take(w.by, w.count)
		if w.condition == 0 {
			object.Asked[bool]{Request: w.r}.Reply(abandoned)
		} else {
			object.Asked[LockWoken]{Request: w.r}.Reply(LockWoken{abandoned, w.ended})
		}
	}
}

func (l *lock) release() {
	if l.count--; l.count > 0 {
		return
	}
	l.holder = owner{}
	l.grant()
}

// abandon takes the lock from a holder that will not release it. All sleepers are
// woken, since the holder may have been the one that was to notify them.
func (l *lock) abandon() {
	l.holder, l.count, l.abandoned = owner{}, 0, true
	l.wake(0, func(*waiter) bool { return true })
	l.grant()
}

// wake makes the first n sleepers that are meant wait for the lock; 0 stands for
// all of them.
func (l *lock) wake(n int, meant func(*waiter) bool) {
	asleep := l.sleeping[:0]
	woken := 0
	for _, w := range l.sleeping {
		if (n == 0 || woken < n) && meant(&w) {
			l.waiting = append(l.waiting, w)
			woken++
		} else {
			asleep = append(asleep, w)
		}
	}
	clear(l.sleeping[len(asleep):])
	l.sleeping = asleep
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

// Left takes the lock from a process that no longer holds the object, whether it
// died or let go.
func (l *lock) Left(p *object.Session, died bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder.peer == p {
		l.abandon()
	}
}

// Drop refuses all requests that wait for the lock or for a notice.
func (l *lock) Drop() {
	l.base.Drop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sleeping.fail(object.Gone, "")
}
