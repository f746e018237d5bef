package builtin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object/builtin"
)

func TestSemaphoreOrder(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 1, 1)
	u, v := b.user(), b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	first := v.begin(acquire, 1, 0)
	v.Settled()
	second := u.begin(acquire, 2, 0)
	u.Settled()
	v.GiveUp(first)
	require.Contains(t, v.end(first), "refused 2")
	done := u.begin(release, 1)
	require.Equal(t, got, u.end(second))
	require.Empty(t, u.end(done))
	require.Empty(t, v.ask(release, 1), "of another process")
	require.Equal(t, byte(builtin.TooOften), v.Reply(v.begin(release, 1)).Code)
	v.tell(builtin.LockReturn, 1, 0, 0) // nor does a permit that came too late add one
	require.Equal(t, "1", v.ask(builtin.LockFree))
}

// The permits that a process holds come back once, whatever becomes of it.
func TestPermitsComeBack(t *testing.T) {
	for name, end := range map[string]func(user){
		"dies":     func(u user) { u.Die() },
		"ends":     func(u user) { u.Bye() },
		"releases": func(u user) { u.Release(u.b.id) },
		"forgets": func(u user) {
			u.tell(builtin.LockForget, 1)
			u.tell(builtin.LockForget, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, builtin.KindSemaphore, 4, 0)
			u, v := b.user(), b.user()
			for _, owner := range []uint64{1, 1, 2} {
				require.Equal(t, got, u.ask(acquire, owner, 1))
			}
			require.Equal(t, got, v.ask(acquire, 1, 1))
			waiting := v.begin(acquire, 1, 0)
			v.Settled()
			done := v.begin(release, 1) // a permit of its own
			require.Equal(t, got, v.end(waiting))
			require.Empty(t, v.end(done))
			require.Empty(t, u.ask(release, 2))
			require.Equal(t, got, v.ask(acquire, 1, 1))
			waiting = v.begin(acquire, 1, 0)
			v.Settled()
			end(u)
			require.Equal(t, got, v.end(waiting))
			eventually(t, func() bool { return v.ask(builtin.LockFree) == "1" })
		})
	}
}

// A proxy that ends does not give back again what it has released itself.
func TestPermitsOfProxies(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 2, 0)
	u := b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	require.Equal(t, got, u.ask(acquire, 2, 0))
	require.Empty(t, u.ask(release, 2))
	u.tell(builtin.LockForget, 2)
	require.Equal(t, "1", u.ask(builtin.LockFree))
	u.tell(builtin.LockForget, 1)
	require.Equal(t, "2", u.ask(builtin.LockFree))
}

// A permit that was released for another process is not given back again when
// that one dies.
func TestPermitHandedOn(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 2, 0)
	u, v := b.user(), b.user()
	require.Equal(t, got, u.ask(acquire, 1, 0))
	require.Empty(t, v.ask(release, 1))
	require.Equal(t, got, v.ask(acquire, 1, 1))
	u.Die()
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 1 })
	require.Equal(t, "1", v.ask(builtin.LockFree))
}

// Permits beyond the initial number are signals, which are used up.
func TestSignalsDoNotComeBack(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 0, 0)
	u, v := b.user(), b.user()
	require.Empty(t, v.ask(release, 1))
	require.Empty(t, v.ask(release, 1))
	require.Equal(t, got, u.ask(acquire, 1, 0))
	u.Bye()
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 1 })
	require.Equal(t, "1", v.ask(builtin.LockFree))
}

// A permit that came too late goes back even if a release elsewhere has counted
// as its owner's.
func TestLatePermitThatWasReleasedElsewhere(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 0, 0)
	u, v := b.user(), b.user()
	waiting := u.begin(acquire, 1, 0)
	u.Settled()
	require.Empty(t, v.ask(release, 1))
	require.Equal(t, got, u.end(waiting))
	require.Empty(t, v.ask(release, 1))
	u.tell(builtin.LockReturn, 1, 0, 0)
	require.Equal(t, "2", u.ask(builtin.LockFree))
}
