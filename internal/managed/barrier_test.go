package managed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/managed"
)

func TestBarrierOrder(t *testing.T) {
	b := newBed(t, managed.KindBarrier, 3)
	u, v := b.user(), b.user()
	for range 3 {
		first := u.begin(managed.BarrierWait)
		u.Settled()
		second := v.begin(managed.BarrierWait)
		v.Settled()
		require.Equal(t, "3 2 0", u.ask(managed.BarrierState))
		third := u.begin(managed.BarrierWait)
		require.Equal(t, "0", u.end(first))
		require.Equal(t, "2", u.end(third))
		require.Equal(t, "1", v.end(second))
	}
	first := u.begin(managed.BarrierWait)
	u.Settled()
	second := v.begin(managed.BarrierWait)
	v.GiveUp(second)
	require.Equal(t, byte(home.GivenUp), v.Reply(second).Code)
	require.Equal(t, byte(managed.Broken), u.Reply(first).Code)
	require.Equal(t, byte(managed.Broken), u.Reply(u.begin(managed.BarrierWait)).Code)
	require.Equal(t, "3 0 1", u.ask(managed.BarrierState))
	require.Empty(t, v.ask(managed.BarrierReset))
	require.Equal(t, "3 0 0", u.ask(managed.BarrierState))

	w := b.user()
	first = u.begin(managed.BarrierWait)
	u.Settled()
	w.Bye() // it needs it no more
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 2 })
	require.Equal(t, "3 1 0", v.ask(managed.BarrierState))
	v.Die()
	require.Contains(t, u.end(first), "Visitor died")
}
