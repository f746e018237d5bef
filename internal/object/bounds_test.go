package object_test

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/test/objecttest"
)

// A process with too many open requests, or too much in them, is told so, and goes on with those that it has.
func TestRequestsOpenAtOnce(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	h.Bound(10, 100_000)
	v := run.Visit(h)
	other := run.Visit(h)
	refused := func(id uint64) {
		t.Helper()
		r := v.Reply(id)
		require.Equal(t, byte(object.TooMany), r.Code)
		require.Contains(t, string(r.Says[0]), "open")
	}
	var open []uint64
	for range 10 {
		open = append(open, v.Ask(ref.Object, wait, nothing))
		o.told(t, "asked")
	}
	for range 100 {
		refused(v.Ask(ref.Object, wait, nothing))
	}
	other.Reply(other.Ask(ref.Object, echo, nothing)).Read(t, new(said))
	v.GiveUp(open[0])
	require.Equal(t, byte(object.GivenUp), v.Reply(open[0]).Code)
	o.told(t, "given up")
	v.Reply(v.Ask(ref.Object, echo, nothing)).Read(t, new(said))
	o.answer()
	for _, id := range open[1:] {
		v.Reply(id).Read(t, new(said))
	}

	large := said{Text: strings.Repeat("x", 60_000)}
	first := v.Ask(ref.Object, wait, large)
	o.told(t, "asked")
	refused(v.Ask(ref.Object, wait, large))
	v.Reply(v.Ask(ref.Object, echo, nothing)).Read(t, new(said))
	o.answer()
	v.Reply(first).Read(t, new(said))
	v.Reply(v.Ask(ref.Object, echo, large)).Read(t, new(said))
}

// Answers that name objects, and that nobody takes, count as well.
func TestAnswersThatNobodyTakes(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	h.Bound(10, 100_000)
	v := run.Visit(h)
	v.Keeps = true
	var kept []uint64
	for range 10 {
		kept = append(kept, v.Ask(ref.Object, hold, nothing))
		v.Reply(kept[len(kept)-1]).Read(t, new(said))
	}
	id := v.Ask(ref.Object, hold, nothing)
	require.Equal(t, byte(object.TooMany), v.Reply(id).Code)
	v.Took(kept[0])
	o.told(t, "taken")
	v.Reply(v.Ask(ref.Object, hold, nothing)).Read(t, new(said))
}

// A request that wants no answer cannot wait for one.
func TestRequestThatWantsNoAnswerDoesNotWait(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	v := run.Visit(h)
	for range 100 {
		v.Tell(ref.Object, wait, nothing)
	}
	v.Settled()
	require.Empty(t, o.waiting)
}

// A process that breaks the rules of requests is disconnected, and the log says why.
func TestWhoBreaksTheRulesIsExpelled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		does func(v *objecttest.Visitor, made uint64)
		says string
	}{
		"an id that waits": {func(v *objecttest.Visitor, made uint64) {
			for range 2 {
				v.Shout(v.Request(7, made, wait, nothing)...)
			}
		}, "request 7"},
		"an id whose answer is not taken": {func(v *objecttest.Visitor, made uint64) {
			v.Keeps = true
			v.Shout(v.Request(7, made, hold, nothing)...)
			v.Reply(7)
			v.Shout(v.Request(7, made, wait, nothing)...)
		}, "request 7"},
		"a message that is none": {func(v *objecttest.Visitor, made uint64) { v.Shout([]byte{200}) }, "malformed"},
		"a second visit": {func(v *objecttest.Visitor, made uint64) {
			v.Shout(wire.MustPack(wire.KindVisit, wire.Visit{Name: "again"})...)
		}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := objecttest.NewRun(t)
			h, _, ref := at(t, run, true)
			v := run.Visit(h)
			test.does(v, ref.Object)
			v.Expelled()
			run.Logs("Visitor", test.says)
			other := run.Visit(h)
			other.Reply(other.Ask(ref.Object, echo, nothing)).Read(t, new(said))
		})
	}
}

// Until a process has said its name, it cannot say much.
func TestFirstMessageIsShort(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, _, ref := at(t, run, true)
	conn, err := run.Dial(ref.Endpoint)
	require.NoError(t, err)
	defer conn.Close()
	_ = conn.Send(t.Context(), wire.MustPack(wire.KindVisit, wire.Visit{Name: strings.Repeat("n", 500_000)})...)
	_, err = conn.Recv()
	require.Error(t, err)
	run.Logs("exceeds the limit")
	v := run.Visit(h)
	large := said{Text: strings.Repeat("x", 500_000)}
	v.Reply(v.Ask(ref.Object, echo, large)).Read(t, new(said))
}

// Answers that name objects are taken soon, even if the garbage of the process that asks is not collected for long.
func TestAnswersAreTakenWithoutGarbage(t *testing.T) { // not parallel: nothing else may collect garbage
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	run := objecttest.NewRun(t)
	_, o, ref := at(t, run, true)
	user := run.Home("User")
	user.KeepAtMost(100)
	o.events = make(chan string, 1<<20)
	for taken := 0; taken < 500; {
		_, err := object.Ask(t.Context(), user, ref, hold, nothing, nil)
		require.NoError(t, err)
		select {
		case <-o.events:
			taken++
		default:
		}
	}
}

// A process that comes back, and breaks the rules again, does not fill the log.
func TestWarningsAreFew(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, _, _ := at(t, run, true)
	began := time.Now()
	for range 100 {
		v := run.Visit(h)
		v.Shout([]byte{200})
		v.Expelled()
	}
	run.Logs("malformed")
	require.LessOrEqual(t, run.Lines(), 1+int(time.Since(began).Seconds()))
}
