package managed

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a lock, and of the conditions that go with a reentrant
// one. An owner is a number that the process gives each of its proxies. Where
// the answer is "abandoned", it says whether the last holder ended without a
// release.
const (
	LockAcquire   byte = lockOps + iota // owner: wait for the lock; abandoned
	LockTry                             // owner: whether it was free, abandoned
	LockRelease                         // owner
	LockReturn                          // owner, abandoned, whether altogether: release what came too late, or should not have come
	LockForget                          // owner: it ends
	LockCondition                       // a number for another condition
	LockWait                            // owner, condition, wait: release, wait for a notice, acquire; abandoned, whether the wait was ended
	LockEndWait                         // wait: end it without a notice
	LockNotify                          // owner, condition, n: wake so many, 0 for all
)

// lock is a lock that somebody may hold.
type lock struct {
	reentrant bool

	mu         sync.Mutex
	gone       bool
	holder     owner // peer is nil when there is none
	count      int   // how often it has acquired it
	abandoned  bool  // whoever gets it next is told
	waiting    []lockWaiter
	conditions uint64 // how many there are
	sleeping   []lockWaiter
}

// lockWaiter is a request that waits for the lock, or, when it is sleeping,
// for a notice, after which it waits for the lock.
type lockWaiter struct {
	r         *home.Request
	by        owner
	count     int    // how often it has it when it has it
	condition uint64 // that it waits or has waited for, 0 for none
	wait      uint64 // a number that its process gave it
	ended     bool   // it was not notified
}

func newLock(reentrant bool) *lock { return &lock{reentrant: reentrant} }

// Serve takes a request.
func (l *lock) Serve(r *home.Request) {
	args := wire.Reader{B: r.Args}
	var by owner
	if r.Op != LockCondition {
		by = owner{r.Peer, args.Uvarint()} // of LockEndWait, the wait's number
	}
	var rest [2]uint64
	switch r.Op {
	case LockReturn, LockWait, LockNotify:
		rest[0], rest[1] = args.Uvarint(), args.Uvarint()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.holder == by
	switch {
	case l.gone:
		r.Fail(home.Gone, "")
	case args.Err != nil || r.Op >= LockCondition && !l.reentrant:
		r.Malformed()
	case r.Op == LockAcquire && held && l.reentrant:
		l.count++
		number(r, 0)
	case r.Op == LockAcquire:
		l.waiting = append(l.waiting, lockWaiter{r: r, by: by, count: 1})
		l.grant()
	case r.Op == LockTry && held && l.reentrant:
		l.count++
		number(r, 1, 0)
	case r.Op == LockTry && l.holder.peer != nil:
		number(r, 0, 0)
	case r.Op == LockTry:
		number(r, 1, l.take(by, 1))
	case r.Op == LockRelease && !held, r.Op == LockWait && !held, r.Op == LockNotify && !held:
		r.Fail(NotHeld, l.whose(by))
	case r.Op == LockRelease:
		l.release()
		r.Reply(nil, nil)
	case r.Op == LockReturn:
		if held {
			l.abandoned = l.abandoned || rest[0] == 1
			if rest[1] == 1 {
				l.count = 1
			}
			l.release()
		}
		r.Reply(nil, nil)
	case r.Op == LockForget:
		if held {
			l.abandon()
		}
		r.Reply(nil, nil)
	case r.Op == LockCondition:
		l.conditions++
		number(r, int(l.conditions))
	case r.Op == LockWait:
		l.sleeping = append(l.sleeping, lockWaiter{r: r, by: by, count: l.count, condition: rest[0], wait: rest[1]})
		l.count = 1
		l.release()
	case r.Op == LockEndWait:
		l.wake(1, func(w *lockWaiter) bool {
			w.ended = w.by.peer == by.peer && w.wait == by.id
			return w.ended
		})
	case r.Op == LockNotify:
		l.wake(int(rest[1]), func(w *lockWaiter) bool { return w.condition == rest[0] })
		r.Reply(nil, nil)
	default:
		r.Malformed()
	}
}

// whose says who holds the lock, to somebody who does not.
func (l *lock) whose(by owner) string {
	switch l.holder.peer {
	case nil:
		return "nobody holds it"
	case by.peer:
		return "another proxy of the same process holds it"
	}
	return l.holder.peer.Name + " holds it"
}

// take gives the free lock to somebody, and says whether it was abandoned. The
// lock is held.
func (l *lock) take(by owner, count int) (abandoned int) {
	abandoned = int(bit(l.abandoned))
	l.holder, l.count, l.abandoned = by, count, false
	return abandoned
}

// grant gives the lock to the next, if it is free.
func (l *lock) grant() {
	for l.holder.peer == nil && len(l.waiting) > 0 {
		w := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		if w.condition == 0 {
			number(w.r, l.take(w.by, w.count))
		} else {
			number(w.r, l.take(w.by, w.count), int(bit(w.ended)))
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

// abandon takes the lock from a holder that will not release it. Those who
// wait for a notice are woken, since it may have been the holder who was to
// give it.
func (l *lock) abandon() {
	l.holder, l.count, l.abandoned = owner{}, 0, true
	l.wake(0, func(*lockWaiter) bool { return true })
	l.grant()
}

// wake has the first n sleepers that are meant, 0 for all of them, wait for
// the lock.
func (l *lock) wake(n int, meant func(*lockWaiter) bool) {
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

// GiveUp takes a waiting request out. A notice that it has had goes to another.
func (l *lock) GiveUp(r *home.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	this := func(w lockWaiter) bool { return w.r == r }
	l.sleeping = slices.DeleteFunc(l.sleeping, this)
	i := slices.IndexFunc(l.waiting, this)
	r.Fail(home.GivenUp, "")
	if i < 0 {
		return
	}
	w := l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if w.condition > 0 && !w.ended {
		l.wake(1, func(other *lockWaiter) bool { return other.condition == w.condition })
	}
}

// Left takes the lock from a process that does not have it any more, however
// it went.
func (l *lock) Left(p *home.Peer, died bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder.peer == p {
		l.abandon()
	}
}

// Drop tells those who wait.
func (l *lock) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for _, w := range append(l.waiting, l.sleeping...) {
		w.r.Fail(home.Gone, "")
	}
	l.waiting, l.sleeping = nil, nil
}
