package builtin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object/builtin"
)

const (
	acquire = builtin.LockAcquire
	release = builtin.LockRelease
)

// What an owner is told.
const (
	none      = "0 0 0"
	got       = "1 0 0"
	abandoned = "1 1 0"
	ended     = "1 0 1"
)

func TestLockGoesToTheLongestWaiting(t *testing.T) {
	b := newBed(t, builtin.KindLock)
	u, v := b.user(), b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	first := v.begin(acquire, 1, 0) // the same number in another process
	v.Settled()
	second := u.begin(acquire, 1, 0) // the holder itself
	u.Settled()
	third := v.begin(acquire, 2, 0)
	v.Settled()
	v.GiveUp(first)
	require.Contains(t, v.end(first), "refused 2")
	require.Contains(t, v.ask(release, 1), "Visitor holds it")
	require.Equal(t, none, v.ask(acquire, 3, 1))

	done := u.begin(release, 1)
	require.Equal(t, got, u.end(second))
	require.Empty(t, u.end(done))
	v.Silent()
	require.Empty(t, u.ask(release, 1))
	require.Equal(t, got, v.end(third))
	require.Empty(t, v.ask(release, 2))
	require.Contains(t, v.ask(release, 2), "nobody holds it")
}

// Who has a reentrant lock may acquire it again, also in requests that waited when it got it, ahead of others.
func TestReentrantLockGoesToAllThatWaitForItsOwner(t *testing.T) {
	b := newBed(t, builtin.KindRLock)
	u, v := b.user(), b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	first := v.begin(acquire, 1, 0)
	v.Settled()
	other := u.begin(acquire, 2, 0)
	u.Settled()
	second := v.begin(acquire, 1, 0)
	v.Settled()
	require.Empty(t, u.ask(release, 1))
	require.Equal(t, got, v.end(first))
	require.Equal(t, got, v.end(second))
	require.Empty(t, v.ask(release, 1))
	u.Silent()
	require.Empty(t, v.ask(release, 1))
	require.Equal(t, got, u.end(other))
}

// A holder that dies, lets go, or drops its proxy leaves the lock to the next,
// which is told that it was abandoned. If that one gives the lock back, the one
// after it is told.
func TestAbandonedLock(t *testing.T) {
	for name, end := range map[string]func(user){
		"dies":     func(u user) { u.Die() },
		"ends":     func(u user) { u.Bye() },
		"releases": func(u user) { u.Release(u.b.id) },
		"forgets":  func(u user) { u.tell(builtin.LockForget, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, builtin.KindLock)
			u, v := b.user(), b.user()
			require.Equal(t, got, u.ask(acquire, 1, 0))
			waiting := v.begin(acquire, 1, 0)
			v.Settled()
			end(u)
			require.Equal(t, abandoned, v.end(waiting))
			v.tell(builtin.LockReturn, 1, 1, 0) // the lock came too late
			require.Equal(t, abandoned, v.ask(acquire, 2, 1))
			require.Empty(t, v.ask(release, 2))
			require.Equal(t, got, v.ask(acquire, 1, 0))
			v.tell(builtin.LockForget, 2) // a proxy that holds nothing
			v.tell(builtin.LockReturn, 2, 1, 1)
			require.Equal(t, none, v.ask(acquire, 2, 1))
		})
	}
}

func TestAbandonedLockThatNobodyWaitsFor(t *testing.T) {
	b := newBed(t, builtin.KindRLock)
	u, v := b.user(), b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	require.Equal(t, got, u.ask(acquire, 1, 0))
	u.Die()
	eventually(t, func() bool { return v.ask(acquire, 1, 1) == abandoned })
	require.Equal(t, got, v.ask(acquire, 1, 1), "twice")
	require.Empty(t, v.ask(release, 1))
	require.Equal(t, none, v.ask(acquire, 2, 1))
	v.tell(builtin.LockReturn, 1, 0, 0)
	require.Equal(t, got, v.ask(acquire, 2, 1))
}

// sleep makes a process wait for a condition, with a lock that it has acquired so
// often before.
func (u user) sleep(owner, condition, wait uint64, times int) (id uint64) {
	u.b.t.Helper()
	for range times {
		require.Equal(u.b.t, got, u.ask(acquire, owner, 0))
	}
	id = u.begin(builtin.LockWait, owner, condition, wait)
	u.Silent()
	return id
}

func TestConditionOrder(t *testing.T) {
	b := newBed(t, builtin.KindRLock)
	u := b.user()
	require.Equal(t, "1", u.ask(builtin.LockCondition))
	require.Equal(t, "2", u.ask(builtin.LockCondition))
	require.Contains(t, u.ask(builtin.LockWait, 1, 1, 1), "nobody holds it")
	require.Contains(t, u.ask(builtin.LockNotify, 1, 1, 1), "nobody holds it")
	first, other := u.sleep(1, 1, 1, 2), u.sleep(2, 2, 2, 1)
	second, third := u.sleep(3, 1, 3, 1), u.sleep(4, 1, 4, 1)
	require.Equal(t, got, u.ask(acquire, 9, 0))
	require.Empty(t, u.ask(builtin.LockNotify, 9, 1, 2))
	u.Silent() // the lock is held
	acquiring := u.begin(acquire, 10, 0)
	u.Silent()
	done := u.begin(release, 9)
	require.Equal(t, got, u.end(first))
	require.Empty(t, u.end(done))
	require.Empty(t, u.ask(release, 1), "once of twice")
	done = u.begin(release, 1)
	require.Equal(t, got, u.end(second))
	require.Empty(t, u.end(done))
	done = u.begin(release, 3)
	require.Equal(t, got, u.end(acquiring), "who has waited for the lock since")
	require.Empty(t, u.end(done))
	require.Empty(t, u.ask(builtin.LockNotify, 10, 2, 0))
	done = u.begin(release, 10)
	require.Equal(t, got, u.end(other))
	require.Empty(t, u.end(done))
	require.Empty(t, u.ask(release, 2))
	u.Silent()
	u.GiveUp(third)
	require.Contains(t, u.end(third), "refused 2")
}

// A sleep that ends without a notice has the lock again, and uses up no notice.
func TestEndOfAWait(t *testing.T) {
	b := newBed(t, builtin.KindRLock)
	u, v := b.user(), b.user()
	first, second := u.sleep(1, 1, 7, 1), v.sleep(1, 1, 7, 1)
	u.tell(builtin.LockEndWait, 8) // there is no such sleep
	u.Silent()
	v.Tell(b.id, builtin.LockEndWait, 7) // its own sleep, not the other's
	require.Equal(t, ended, v.end(second))
	u.Tell(b.id, builtin.LockEndWait, 7)
	u.Silent()
	require.Empty(t, v.ask(builtin.LockNotify, 1, 1, 1))
	require.Empty(t, v.ask(release, 1))
	require.Equal(t, ended, u.end(first))
}

// If a notified process dies before it has the lock, another is notified.
func TestNoticeIsHandedOn(t *testing.T) {
	b := newBed(t, builtin.KindRLock)
	u, v, w := b.user(), b.user(), b.user()
	u.sleep(1, 1, 1, 1)
	second, other := v.sleep(1, 1, 1, 1), v.sleep(2, 2, 2, 1)
	require.Equal(t, got, w.ask(acquire, 1, 0))
	require.Empty(t, w.ask(builtin.LockNotify, 1, 1, 1))
	u.Die()
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 2 })
	require.Empty(t, w.ask(release, 1))
	require.Equal(t, got, v.end(second))
	require.Empty(t, v.ask(release, 1))
	v.Silent()
	v.GiveUp(other)
	v.end(other)
}

// When the holder dies, all sleepers are woken, and the first of them is told
// why.
func TestSleepersOfADeadHolder(t *testing.T) {
	b := newBed(t, builtin.KindRLock)
	u, v := b.user(), b.user()
	first, second := v.sleep(1, 1, 1, 2), v.sleep(2, 2, 2, 1)
	require.Equal(t, got, u.ask(acquire, 1, 0))
	u.Die()
	require.Equal(t, abandoned, v.end(first))
	v.Tell(b.id, builtin.LockReturn, builtin.LockBack{Owner: 1, Whole: true}) // all acquisitions at once
	require.Equal(t, got, v.end(second))
}

// A permit passes over those whose deadline is over.
func TestOverdueWaiters(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 1)
	u, v := b.user(), b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	late := v.Overdue(b.id, acquire, builtin.LockWant{Owner: 1})
	require.Empty(t, u.ask(release, 1))
	require.Equal(t, "1", u.ask(builtin.LockFree))
	v.GiveUp(late)
	require.Contains(t, v.end(late), "refused 2")
	require.Equal(t, got, v.ask(acquire, 1, 1))
}
