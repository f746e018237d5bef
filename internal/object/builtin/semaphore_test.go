package builtin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object/builtin"
)

func TestSemaphoreOrder(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 1, 1)
	u, v := b.user(), b.user()
	require.Empty(t, u.ask(builtin.SemaphoreAcquire, 1))
	first := v.begin(builtin.SemaphoreAcquire, 1)
	v.Settled()
	second := u.begin(builtin.SemaphoreAcquire, 2)
	u.Settled()
	v.GiveUp(first)
	require.Contains(t, v.end(first), "refused 2")
	done := u.begin(builtin.SemaphoreRelease, 1)
	require.Empty(t, u.end(second))
	require.Empty(t, u.end(done))
	require.Empty(t, v.ask(builtin.SemaphoreRelease, 1), "of another process")
	require.Equal(t, byte(builtin.TooOften), v.Reply(v.begin(builtin.SemaphoreRelease, 1)).Code)
	require.Equal(t, "1", v.ask(builtin.SemaphoreValue))
}

// The permits that a process holds come back once, whatever becomes of it.
func TestPermitsComeBack(t *testing.T) {
	for name, end := range map[string]func(user){
		"dies":     func(u user) { u.Die() },
		"ends":     func(u user) { u.Bye() },
		"releases": func(u user) { u.Release(u.b.id) },
		"forgets": func(u user) {
			u.tell(builtin.SemaphoreForget, 1)
			u.tell(builtin.SemaphoreForget, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, builtin.KindSemaphore, 4, 0)
			u, v := b.user(), b.user()
			for _, owner := range []uint64{1, 1, 2} {
				require.Equal(t, "1", u.ask(builtin.SemaphoreTry, owner))
			}
			require.Equal(t, "1", v.ask(builtin.SemaphoreTry, 1))
			waiting := v.begin(builtin.SemaphoreAcquire, 1)
			v.Settled()
			done := v.begin(builtin.SemaphoreRelease, 1) // a permit of its own
			require.Empty(t, v.end(waiting))
			require.Empty(t, v.end(done))
			require.Empty(t, u.ask(builtin.SemaphoreRelease, 2))
			require.Equal(t, "1", v.ask(builtin.SemaphoreTry, 1))
			waiting = v.begin(builtin.SemaphoreAcquire, 1)
			v.Settled()
			end(u)
			require.Empty(t, v.end(waiting))
			eventually(t, func() bool { return v.ask(builtin.SemaphoreValue) == "1" })
		})
	}
}

// A proxy that ends does not give back again what it has released itself.
func TestPermitsOfProxies(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 2, 0)
	u := b.user()
	require.Empty(t, u.ask(builtin.SemaphoreAcquire, 1))
	require.Empty(t, u.ask(builtin.SemaphoreAcquire, 2))
	require.Empty(t, u.ask(builtin.SemaphoreRelease, 2))
	u.tell(builtin.SemaphoreForget, 2)
	require.Equal(t, "1", u.ask(builtin.SemaphoreValue))
	u.tell(builtin.SemaphoreForget, 1)
	require.Equal(t, "2", u.ask(builtin.SemaphoreValue))
}

// A permit that was released for another process is not given back again when
// that one dies.
func TestPermitHandedOn(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 2, 0)
	u, v := b.user(), b.user()
	require.Empty(t, u.ask(builtin.SemaphoreAcquire, 1))
	require.Empty(t, v.ask(builtin.SemaphoreRelease, 1))
	require.Equal(t, "1", v.ask(builtin.SemaphoreTry, 1))
	u.Die()
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 1 })
	require.Equal(t, "1", v.ask(builtin.SemaphoreValue))
}

// Permits beyond the initial number are signals, which are used up.
func TestSignalsDoNotComeBack(t *testing.T) {
	b := newBed(t, builtin.KindSemaphore, 0, 0)
	u, v := b.user(), b.user()
	require.Empty(t, v.ask(builtin.SemaphoreRelease, 1))
	require.Empty(t, v.ask(builtin.SemaphoreRelease, 1))
	require.Empty(t, u.ask(builtin.SemaphoreAcquire, 1))
	u.Bye()
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 1 })
	require.Equal(t, "1", v.ask(builtin.SemaphoreValue))
}
