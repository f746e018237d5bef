package builtin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

func TestBarrierOrder(t *testing.T) {
	b := newBed(t, builtin.KindBarrier, 3)
	u, v := b.user(), b.user()
	for range 3 {
		first := u.begin(builtin.BarrierWait)
		u.Settled()
		second := v.begin(builtin.BarrierWait)
		v.Settled()
		require.Equal(t, "3 2 0", u.ask(builtin.BarrierState))
		third := u.begin(builtin.BarrierWait)
		require.Equal(t, "0", u.end(first))
		require.Equal(t, "2", u.end(third))
		require.Equal(t, "1", v.end(second))
	}
	first := u.begin(builtin.BarrierWait)
	u.Settled()
	second := v.begin(builtin.BarrierWait)
	v.GiveUp(second)
	require.Equal(t, byte(object.GivenUp), v.Reply(second).Code)
	require.Equal(t, byte(builtin.Broken), u.Reply(first).Code)
	require.Equal(t, byte(builtin.Broken), u.Reply(u.begin(builtin.BarrierWait)).Code)
	require.Equal(t, "3 0 1", u.ask(builtin.BarrierState))
	require.Empty(t, v.ask(builtin.BarrierReset))
	require.Equal(t, "3 0 0", u.ask(builtin.BarrierState))

	w := b.user()
	first = u.begin(builtin.BarrierWait)
	u.Settled()
	w.Bye() // it does not need the barrier any more
	eventually(t, func() bool { return len(b.h.Holders(b.id)) == 2 })
	require.Equal(t, "3 1 0", v.ask(builtin.BarrierState))
	v.Die()
	require.Contains(t, u.end(first), "Visitor died")
}

// A barrier says of a party that died while it waited that it died.
func TestWaitingPartyThatDies(t *testing.T) {
	b := newBed(t, builtin.KindBarrier, 2)
	u, v := b.user(), b.user()
	v.Ask(b.id, builtin.BarrierWait.Number(), nil)
	eventually(t, func() bool { return u.ask(builtin.BarrierState) == "2 1 0" })
	v.Die()
	eventually(t, func() bool { return u.ask(builtin.BarrierState) == "2 0 1" })
	require.Contains(t, u.ask(builtin.BarrierWait), "Visitor died")
}

// A party whose deadline is over is missing, also before it says so.
func TestOverdueParty(t *testing.T) {
	b := newBed(t, builtin.KindBarrier, 2)
	u, v := b.user(), b.user()
	late := v.Overdue(b.id, builtin.BarrierWait, nil)
	require.Contains(t, u.ask(builtin.BarrierWait), "the context of a Wait in Visitor has ended")
	require.Empty(t, u.ask(builtin.BarrierReset))
	v.GiveUp(late)
	require.Contains(t, v.end(late), "refused 2")
	require.Equal(t, "2 0 0", u.ask(builtin.BarrierState))
}
