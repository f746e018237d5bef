package pipe

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/test/objecttest"
)

// bed is a pipe whose items are single bytes, with the ports of its two ends in
// its home.
type bed struct {
	t    *testing.T
	run  *objecttest.Run
	h    *object.Server
	a, b *Port
}

func newBed(t *testing.T) *bed {
	t.Helper()
	t.Parallel()
	run := objecttest.NewRun(t)
	h := run.Home("Home")
	a, b, err := Make(h)
	require.NoError(t, err)
	return &bed{t, run, h, a, b}
}

// owner is a process that owns, or claims, an end.
type owner struct {
	*objecttest.Visitor
	t   *testing.T
	id  uint64
	gen uint64
}

// owner makes a process that holds the end of a port.
func (b *bed) owner(p *Port) *owner {
	b.t.Helper()
	v := b.run.Visit(b.h)
	v.Hold(p.Ref().Object)
	v.Settled()
	return &owner{Visitor: v, t: b.t, id: p.Ref().Object}
}

// claim claims the end, whose generation is gen, and waits until the home knows.
func (o *owner) claim(gen uint64) (id uint64) {
	o.t.Helper()
	id = o.asks(gen)
	require.Equal(o.t, claimed.Number(), o.Notice(o.id).Op)
	return id
}

// asks claims the end.
func (o *owner) asks(gen uint64) (id uint64) {
	o.t.Helper()
	return o.Ask(o.id, claim, of[object.None]{Gen: gen})
}

// claimed waits until the process is the owner, and returns how many of the items
// that it may have sent are still unread.
func (o *owner) claimed(id uint64) (unread int) {
	o.t.Helper()
	var g granted
	o.Reply(id).Read(o.t, &g)
	o.gen = g.Gen
	return g.Out / weight(object.Value{})
}

func (o *owner) send(items string) {
	o.t.Helper()
	for _, c := range items {
		o.Tell(o.id, send, of[object.Value]{Gen: o.gen, What: object.Value{First: []byte{byte(c)}}})
	}
}

// gets checks that items come, or, with "", that the other end is gone.
func (o *owner) gets(items string) {
	o.t.Helper()
	for _, c := range items {
		n := o.Notice(o.id)
		require.Equal(o.t, item.Number(), n.Op)
		var q of[object.Value]
		n.Read(o.t, &q)
		require.Equal(o.t, o.gen, q.Gen)
		require.Equal(o.t, string(c), string(q.What.First))
	}
	if items == "" {
		require.Equal(o.t, ended.Number(), o.Notice(o.id).Op)
	}
}

// says says something that comes with a number, or with none.
func (o *owner) says(op any, n ...int) {
	o.t.Helper()
	if len(n) > 0 {
		o.Tell(o.id, op, of[int]{Gen: o.gen, What: n[0]})
	} else {
		o.Tell(o.id, op, of[object.None]{Gen: o.gen})
	}
	o.Settled()
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// recv checks that items come at a port, or, with "", that no more will.
func (b *bed) recv(p *Port, items string) {
	b.t.Helper()
	for _, c := range items {
		v, err := p.Recv(soon(b.t))
		require.NoError(b.t, err)
		require.Equal(b.t, string(c), string(v.First))
	}
	if items == "" {
		_, err := p.Recv(soon(b.t))
		require.Equal(b.t, io.EOF, err)
	}
}

func (b *bed) send(p *Port, items string) {
	b.t.Helper()
	for _, c := range items {
		require.NoError(b.t, p.Send(soon(b.t), object.Value{First: []byte{byte(c)}}))
	}
}

// depart says that the end's name is about to be sent, and returns the end's
// generation.
func (b *bed) depart(p *Port) (gen uint64) {
	b.t.Helper()
	require.NoError(b.t, p.Depart())
	gen, err := p.Generation()
	require.NoError(b.t, err)
	return gen
}

// away gives an end to a new owner.
func (b *bed) away(p *Port) *owner {
	b.t.Helper()
	gen := b.depart(p)
	o := b.owner(p)
	o.claimed(o.claim(gen))
	return o
}

// The last items of the old owner come before the first of the new one,
// although the claim overtakes them; what it has read does not come again.
func TestClaimWaitsForTheLastWord(t *testing.T) {
	b := newBed(t)
	b.send(b.a, "abcd")
	old := b.owner(b.b)
	id := old.claim(1)
	old.claimed(id)
	old.gets("abcd")
	next := b.owner(b.b)
	claiming := next.claim(old.gen)
	next.Settled()
	require.Equal(t, moved.Number(), old.Notice(old.id).Op)
	old.send("x")
	b.send(b.a, "e") // while the end has no owner
	old.Silent()
	old.says(leave, 3)
	require.Equal(t, 1, next.claimed(claiming), "x was sent and not read")
	require.Equal(t, old.gen+1, next.gen)
	next.gets("de")
	next.send("y")
	b.recv(b.a, "xy")
	// What the old owner says counts no more.
	old.send("z")
	old.says(closeEnd, 0)
	old.says(read, 1)
	old.says(leave, 1)
	require.Equal(t, byte(gone), old.Reply(old.asks(old.gen)).Code)
	next.send("z")
	b.recv(b.a, "z")
}

// Two processes have the same name. The second claims the end while the first
// waits, and again later.
func TestSecondClaim(t *testing.T) {
	b := newBed(t)
	old := b.away(b.b)
	one, two := b.owner(b.b), b.owner(b.b)
	id := one.claim(old.gen)
	one.Settled()
	require.Equal(t, byte(gone), two.Reply(two.asks(old.gen)).Code)
	require.Equal(t, moved.Number(), old.Notice(old.id).Op)
	old.says(leave, 0)
	one.claimed(id)
	require.Equal(t, byte(gone), two.Reply(two.asks(old.gen)).Code)
	one.send("a")
	b.recv(b.a, "a")
}

// A process that claims an end dies before it owns it.
func TestClaimerDies(t *testing.T) {
	b := newBed(t)
	old := b.away(b.b)
	next := b.owner(b.b)
	next.claim(old.gen)
	require.Equal(t, moved.Number(), old.Notice(old.id).Op)
	next.Die()
	old.send("a")
	// The home may take the death for a later event than the last word.
	old.says(leave, 0)
	b.recv(b.a, "a")
	b.recv(b.a, "")
}

// The owner dies, or ends, while another process claims the end. The items that
// it has sent are not lost.
func TestOwnerDiesInAClaim(t *testing.T) {
	for name, end := range map[string]func(*owner){
		"dies": func(o *owner) { o.Die() }, "ends": func(o *owner) { o.Bye() }, "releases": func(o *owner) { o.Release(o.id) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			old := b.away(b.b)
			next := b.owner(b.b)
			id := next.claim(old.gen)
			require.Equal(t, moved.Number(), old.Notice(old.id).Op)
			old.send("a")
			old.Settled()
			end(old)
			next.claimed(id)
			next.send("b")
			b.recv(b.a, "ab")
			next.Die()
			b.recv(b.a, "")
		})
	}
}

// The owner dies with a name under way: the end waits for the process that gets
// the name.
func TestOwnerDiesWithANameUnderWay(t *testing.T) {
	b := newBed(t)
	old := b.away(b.b)
	b.send(b.a, "ab")
	old.gets("ab")
	old.says(depart, 1)
	old.Die()
	b.ownerless(b.b)
	next := b.owner(b.b)
	next.claimed(next.claim(old.gen))
	next.gets("b")
	next.Die() // with no name under way
	b.recv(b.a, "")
}

// ownerless waits until an end has no owner.
func (b *bed) ownerless(p *Port) {
	b.t.Helper()
	e := b.h.Local(p.Ref()).(*End)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		owner := e.owner
		e.mu.Unlock()
		if owner == nil {
			return
		}
		require.True(b.t, time.Now().Before(deadline), "it has an owner")
	}
}

// An end that no process ever claims lapses.
func TestEndThatNobodyClaims(t *testing.T) {
	b := newBed(t)
	old := b.away(b.b)
	old.says(depart, 0)
	old.Die()
	b.recv(b.a, "")
}

// An end that was sent to a process waits for that one as long as it lives, and
// closes with it, unless it was claimed.
func TestLeaveTo(t *testing.T) {
	t.Parallel()
	b := &bed{t: t, run: objecttest.NewRun(t)}
	b.run.Silence(200 * time.Millisecond)
	b.h = b.run.Home("Home")
	for _, claims := range []bool{false, true} {
		var err error
		b.a, b.b, err = Make(b.h)
		require.NoError(t, err)
		gen := b.depart(b.b)
		ended := make(chan struct{})
		b.b.LeaveTo(ended)
		time.Sleep(time.Second) // nothing happens, although another process would not be waited for so long
		require.NotNil(t, b.h.Local(b.b.Ref()))
		b.send(b.a, "a")
		if !claims {
			close(ended)
			b.recv(b.a, "")
			require.ErrorIs(t, b.a.Send(soon(t), object.Value{}), ErrEnded)
			continue
		}
		next := b.owner(b.b)
		next.claimed(next.claim(gen))
		close(ended)
		next.gets("a")
		next.send("b")
		b.recv(b.a, "b")
	}
}

// A claim is still under way when its process closes the end, or leaves it.
func TestCloseWhileClaiming(t *testing.T) {
	for name, quit := range map[string]func(*Port){"close": (*Port).Close, "leave": (*Port).Leave} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			old := b.away(b.b)
			other := b.run.Home("Other")
			other.Hold(b.b.Ref())
			p := Claim(other, b.b.Ref(), old.gen)
			require.Equal(t, moved.Number(), old.Notice(old.id).Op)
			ctx, cancel := context.WithTimeout(soon(t), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, p.Send(ctx, object.Value{}), context.DeadlineExceeded)
			quit(p)
			require.ErrorIs(t, p.Send(soon(t), object.Value{}), ErrGone)
			old.says(leave, 0)
			b.recv(b.a, "")
		})
	}
}

// Operations wait for the answer to a claim. If the claim is refused, the end is
// gone.
func TestClaimThatIsRefused(t *testing.T) {
	b := newBed(t)
	old := b.away(b.b)
	other := b.run.Home("Other")
	p := Claim(other, b.b.Ref(), old.gen+7)
	_, err := p.Recv(soon(t))
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, p.Send(soon(t), object.Value{}), ErrGone)
	require.ErrorIs(t, p.Depart(), ErrGone)
	p.Close()
	// If the object does not exist, the other end counts as gone.
	p = Claim(other, object.Ref{Endpoint: b.b.Ref().Endpoint, Object: 999}, 1)
	_, err = p.Recv(soon(t))
	require.Equal(t, io.EOF, err)
	require.ErrorIs(t, p.Send(soon(t), object.Value{}), ErrEnded)
}

// The new owner takes over the state of the window.
func TestWindowMoves(t *testing.T) {
	b := newBed(t)
	reader := b.away(b.b)
	writer := b.away(b.a)
	for range windowItems {
		writer.send("x")
	}
	writer.says(depart, 0)
	other := b.run.Home("Other")
	other.Hold(b.a.Ref())
	p := Claim(other, b.a.Ref(), writer.gen)
	require.Equal(t, moved.Number(), writer.Notice(writer.id).Op)
	writer.says(leave, 0)
	ctx, cancel := context.WithTimeout(soon(t), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Send(ctx, object.Value{First: []byte{}}), context.DeadlineExceeded)
	reader.says2(read, windowItems/4, windowItems)
	require.NoError(t, p.Send(soon(t), object.Value{First: []byte{}}))
}

// says2 receives n items and then says something.
func (o *owner) says2(op any, arg, n int) {
	o.t.Helper()
	for range n {
		o.gets("x")
	}
	o.says(op, arg)
}

// Messages that no Fiber sends do no harm.
func TestMalformedMessages(t *testing.T) {
	b := newBed(t)
	o := b.away(b.b)
	b.send(b.a, "a")
	o.gets("a")
	require.Equal(t, byte(object.Unknown), o.Reply(o.Ask(o.id, claim, objecttest.Raw{})).Code)
	require.Equal(t, byte(object.Unknown), o.Reply(o.Ask(o.id, 99, of[int]{Gen: o.gen})).Code)
	require.Equal(t, byte(gone), o.Reply(o.Ask(o.id, read, of[int]{Gen: o.gen + 1})).Code)
	o.Tell(o.id, send, o.gen)
	o.Tell(o.id, send, of[int]{Gen: o.gen, What: 1})
	o.says(read)
	o.says(read, 1<<40)
	o.says(read, -1)
	o.send("b")
	b.recv(b.a, "b")
	b.send(b.a, "c")
	o.gets("c")
}

// A sender that does not keep to the window is disconnected, and the log says why. What it was allowed to send is read.
func TestSenderThatIgnoresTheWindow(t *testing.T) {
	b := newBed(t)
	o := b.away(b.b)
	o.send(strings.Repeat("x", windowItems))
	o.Settled()
	o.Shout(o.Request(0, o.id, send, of[object.Value]{Gen: o.gen, What: object.Value{First: []byte("y")}})...)
	o.Expelled()
	b.run.Logs("Visitor", "window")
	b.recv(b.a, strings.Repeat("x", windowItems))
	b.recv(b.a, "")
}

// Messages of several goroutines may overtake each other: the largest, which fills the window, may come first.
func TestItemsThatOvertake(t *testing.T) {
	b := newBed(t)
	o := b.away(b.b)
	o.Tell(o.id, send, of[object.Value]{Gen: o.gen, What: object.Value{First: make([]byte, window-1000)}})
	o.send(strings.Repeat("x", windowItems-1))
	_, err := b.a.Recv(soon(t))
	require.NoError(t, err)
	b.recv(b.a, strings.Repeat("x", windowItems-1))
}

// An item holds the objects that it names until it is read, or the end is closed.
func TestItemsHoldWhatTheyName(t *testing.T) {
	b := newBed(t)
	o := b.away(b.b)
	for _, last := range []object.Op[of[int], object.None]{read, closeEnd} {
		named := []named{make(named), make(named)}
		for _, n := range named {
			ref, err := b.h.Make(n, false)
			require.NoError(t, err)
			require.NoError(t, b.a.Send(soon(t), object.Encoded([][]byte{{'a'}}, ref)))
			require.Len(t, b.h.Holders(ref.Object), 1)
		}
		o.gets("aa")
		o.says(last, 2)
		for _, n := range named {
			<-n // the object lapses
		}
	}
}

// named is an object that items name, closed when it is dropped.
type named chan struct{}

func (named) Serve(*object.Request)      {}
func (named) GiveUp(*object.Request)     {}
func (named) Left(*object.Session, bool) {}
func (n named) Drop()                    { close(n) }

// A past owner holds an end only until the next has claimed it. The death of the
// next owner is therefore noticed, even with a name under way.
func TestPastOwnersHoldNothing(t *testing.T) {
	b := newBed(t)
	for name, leavesFirst := range map[string]bool{"after it has left": true, "before": false} {
		_, second, err := Make(b.h)
		require.NoError(t, err)
		gen := b.depart(second)
		if leavesFirst {
			second.Leave()
		}
		next := b.owner(second)
		next.claimed(next.claim(gen))
		id := second.Ref().Object
		for deadline := time.Now().Add(time.Minute / 4); len(b.h.Holders(id)) > 1; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "claimed "+name+": the past owner still holds it")
		}
		next.says(depart, 0)
		next.Die()
		for deadline := time.Now().Add(time.Minute / 4); b.h.Local(second.Ref()) != nil; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "claimed "+name+": the end lives on")
		}
	}
}

// The home says that it knows of a claim before the old owner's last word. From
// then on it notices the claimer's death.
func TestKnownBeforeTheLastWord(t *testing.T) {
	b := newBed(t)
	old := b.away(b.b)
	other := b.run.Home("Other")
	p := Claim(other, b.b.Ref(), old.gen)
	require.True(t, p.Known(soon(t)))
	require.Equal(t, moved.Number(), old.Notice(old.id).Op)
	p.mu.Lock()
	require.Zero(t, p.gen, "it has the end before the last word")
	p.mu.Unlock()
	other.Close()
	old.says(leave, 0)
	b.recv(b.a, "")
	// Known does not wait for a home that is this process, or is gone.
	b = &bed{t: t, run: b.run, h: b.h}
	var err error
	b.a, b.b, err = Make(b.h)
	require.NoError(t, err)
	require.True(t, Claim(b.h, b.b.Ref(), b.depart(b.b)).Known(soon(t)))
	third := b.run.Home("Third")
	ref := b.a.Ref()
	b.h.Close()
	require.True(t, Claim(third, ref, 1).Known(soon(t)))
}

// An item that names objects counts as read only once Took was called. Until then
// the end's next owner gets it again.
func TestItemThatNamesObjectsIsReadWhenTaken(t *testing.T) {
	b := newBed(t)
	for _, taken := range []bool{false, true} {
		a, c, err := Make(b.h)
		require.NoError(t, err)
		value := object.Encoded([][]byte{{'a'}}, b.a.Ref())
		require.NoError(t, a.Send(soon(t), value))
		v, err := c.Recv(soon(t))
		require.NoError(t, err)
		gen := b.depart(c)
		next := b.owner(c)
		id := next.claim(gen)
		if taken {
			next.Settled()
			c.Took(v)
			next.claimed(id)
			next.Silent()
			continue
		}
		next.Settled()
		c.free() // as if its process had died
		next.claimed(id)
		next.gets("a")
	}
}

// An end that stays unclaimed ends within heartbeat_timeout, although its sender
// lives.
func TestLastNameIsLostWithItsCarrier(t *testing.T) {
	b := newBed(t)
	b.run.Silence(2 * time.Second)
	h := b.run.Home("Strict")
	a, c, err := Make(h)
	require.NoError(t, err)
	require.NoError(t, c.Depart())
	carrier := b.run.Visit(h)
	carrier.Hold(c.Ref().Object)
	carrier.Settled()
	c.Leave()
	carrier.Die()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute/4)
	defer cancel()
	_, err = a.Recv(ctx)
	require.Equal(t, io.EOF, err)
}

// Whoever uses the port while the last word is being posted does not end the hold.
func TestHeldUntilTheLastWordIsPosted(t *testing.T) {
	p := newBed(t).a
	var freed bool
	free := p.free
	p.free = func() { freed = true }
	p.state, p.busy = silent, 1
	p.conclude()
	require.False(t, freed)
	p.busy = 0
	p.conclude()
	require.True(t, freed)
	free()
}

// mute answers nothing.
type mute struct{}

func (mute) Serve(*object.Request)      {}
func (mute) GiveUp(*object.Request)     {}
func (mute) Left(*object.Session, bool) {}
func (mute) Drop()                      {}

// An item that the home may have takes up room until the home says otherwise; one
// that was not sent does not.
func TestRoomOfAnItemThatMayHaveArrived(t *testing.T) {
	b := newBed(t)
	ref, err := b.h.Make(mute{}, true)
	require.NoError(t, err)
	p := newPort(b.h, ref, 1)
	defer p.free()
	v := object.Encoded(nil, ref)
	large := object.Encoded([][]byte{make([]byte, 2<<20)}, ref)
	require.Error(t, p.Send(soon(t), large))
	require.Zero(t, p.out)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Send(ctx, v), context.DeadlineExceeded)
	require.Equal(t, weight(v), p.out)
}
