package pipe

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/objecttest"
	"github.com/fiber-go/fiber/internal/wire"
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

func numbers(ns ...uint64) (args []byte) {
	for _, n := range ns {
		args = binary.AppendUvarint(args, n)
	}
	return args
}

// claim claims the end, whose generation is gen.
func (o *owner) claim(gen uint64) (id uint64) {
	o.t.Helper()
	return o.Ask(o.id, claim, numbers(gen))
}

// claimed waits until the process is the owner, and returns how many of the items
// that it may have sent are still unread.
func (o *owner) claimed(id uint64) (unread int) {
	o.t.Helper()
	reply := o.Reply(id)
	require.Zero(o.t, reply.Code)
	args := wire.Reader{B: reply.Args}
	o.gen = args.Uvarint()
	return args.Int()
}

func (o *owner) send(items string) {
	o.t.Helper()
	for _, c := range items {
		args, frames := object.PackValues(numbers(o.gen), object.Value{Frames: [][]byte{{byte(c)}}})
		o.Tell(o.id, send, args, frames...)
	}
}

// gets checks that items come, or, with "", that the other end is gone.
func (o *owner) gets(items string) {
	o.t.Helper()
	for _, c := range items {
		n := o.Notice(o.id)
		require.Equal(o.t, item.Number(), n.Op)
		args := wire.Reader{B: n.Args}
		require.Equal(o.t, o.gen, args.Uvarint())
		values, err := object.UnpackValues(&args, n.Value)
		require.NoError(o.t, err)
		require.Equal(o.t, string(c), string(values[0].Frames[0]))
	}
	if items == "" {
		require.Equal(o.t, ended.Number(), o.Notice(o.id).Op)
	}
}

func (o *owner) says(op any, n ...uint64) {
	o.t.Helper()
	o.Tell(o.id, op, numbers(append([]uint64{o.gen}, n...)...))
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
		require.Equal(b.t, string(c), string(v.Frames[0]))
	}
	if items == "" {
		_, err := p.Recv(soon(b.t))
		require.Equal(b.t, io.EOF, err)
	}
}

func (b *bed) send(p *Port, items string) {
	b.t.Helper()
	for _, c := range items {
		require.NoError(b.t, p.Send(soon(b.t), object.Value{Frames: [][]byte{{byte(c)}}}))
	}
}

// away gives an end to a new owner.
func (b *bed) away(p *Port) *owner {
	b.t.Helper()
	gen, err := p.Depart()
	require.NoError(b.t, err)
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
	old.says(closeEnd)
	old.says(read, 1)
	old.says(leave, 1)
	require.Equal(t, byte(gone), old.Reply(old.claim(old.gen)).Code)
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
	require.Equal(t, byte(gone), two.Reply(two.claim(old.gen)).Code)
	require.Equal(t, moved.Number(), old.Notice(old.id).Op)
	old.says(leave, 0)
	one.claimed(id)
	require.Equal(t, byte(gone), two.Reply(two.claim(old.gen)).Code)
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
	next.says(depart, 1)
	next.says(stay)
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

func TestOrphan(t *testing.T) {
	b := newBed(t)
	_, err := b.b.Depart()
	require.NoError(t, err)
	b.b.Leave()
	b.send(b.a, "a")
	b.b.Orphan()
	b.recv(b.a, "")
	require.ErrorIs(t, b.a.Send(soon(t), object.Value{}), ErrEnded)

	b = &bed{t: t, run: b.run, h: b.h}
	b.a, b.b, err = Make(b.h)
	require.NoError(t, err)
	_, err = b.b.Depart()
	require.NoError(t, err)
	b.b.Leave()
	next := b.owner(b.b)
	next.claimed(next.claim(1))
	b.b.Orphan() // does nothing, since the end was claimed
	next.send("a")
	b.recv(b.a, "a")
}

// An end that was sent to a process waits for that one as long as it lives.
func TestLeaveTo(t *testing.T) {
	t.Parallel()
	b := &bed{t: t, run: objecttest.NewRun(t)}
	b.run.Silence(200 * time.Millisecond)
	b.h = b.run.Home("Home")
	var err error
	b.a, b.b, err = Make(b.h)
	require.NoError(t, err)
	_, err = b.b.Depart()
	require.NoError(t, err)
	ended := make(chan struct{})
	b.b.LeaveTo(ended)
	time.Sleep(time.Second) // nothing happens, although another process would not be waited for so long
	require.NotNil(t, b.h.Local(b.b.Ref()))
	b.send(b.a, "a")
	close(ended)
	b.recv(b.a, "")
}

// Names that were not sent after all do not keep an end.
func TestStay(t *testing.T) {
	b := newBed(t)
	for range 2 {
		_, err := b.b.Depart()
		require.NoError(t, err)
	}
	b.b.Stay()
	b.b.Stay()
	b.b.Leave()
	b.recv(b.a, "")
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
	_, err = p.Depart()
	require.ErrorIs(t, err, ErrGone)
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
	require.ErrorIs(t, p.Send(ctx, object.Value{Frames: [][]byte{{}}}), context.DeadlineExceeded)
	reader.says2(read, tellItems, windowItems)
	require.NoError(t, p.Send(soon(t), object.Value{Frames: [][]byte{{}}}))
}

// says2 receives n items and then says something.
func (o *owner) says2(op any, arg uint64, n int) {
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
	require.Equal(t, byte(object.Unknown), o.Reply(o.Ask(o.id, claim, nil)).Code)
	require.Equal(t, byte(object.Unknown), o.Reply(o.Ask(o.id, 99, numbers(o.gen))).Code)
	require.Equal(t, byte(gone), o.Reply(o.Ask(o.id, stay, numbers(o.gen+1))).Code)
	o.Tell(o.id, send, numbers(o.gen))
	o.Tell(o.id, send, numbers(o.gen, 1<<40))
	o.says(read)
	o.says(read, 1<<40)
	o.says(read, 1<<63)
	o.send("b")
	b.recv(b.a, "b")
	b.send(b.a, "c")
	o.gets("c")
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
			require.NoError(t, b.a.Send(soon(t), object.Value{Frames: [][]byte{{'a'}}, Refs: []object.Ref{ref}}))
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
		gen, err := second.Depart()
		require.NoError(t, err)
		if leavesFirst {
			second.Leave()
		}
		next := b.owner(second)
		next.claimed(next.claim(gen))
		id := second.Ref().Object
		for deadline := time.Now().Add(transit / 2); len(b.h.Holders(id)) > 1; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "claimed "+name+": the past owner still holds it")
		}
		next.says(depart, 0)
		next.Die()
		for deadline := time.Now().Add(transit / 2); b.h.Local(second.Ref()) != nil; time.Sleep(time.Millisecond) {
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
	select {
	case <-p.claimed:
		require.FailNow(t, "it has the end before the last word")
	default:
	}
	other.Close()
	old.says(leave, 0)
	b.recv(b.a, "")
	// Known does not wait for a home that is this process, or is gone.
	b = &bed{t: t, run: b.run, h: b.h}
	var err error
	b.a, b.b, err = Make(b.h)
	require.NoError(t, err)
	gen, err := b.b.Depart()
	require.NoError(t, err)
	require.True(t, Claim(b.h, b.b.Ref(), gen).Known(soon(t)))
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
		value := object.Value{Frames: [][]byte{{'a'}}, Refs: []object.Ref{b.a.Ref()}}
		require.NoError(t, a.Send(soon(t), value))
		v, err := c.Recv(soon(t))
		require.NoError(t, err)
		gen, err := c.Depart()
		require.NoError(t, err)
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
		c.forget() // as if its process had died
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
	_, err = c.Depart()
	require.NoError(t, err)
	carrier := b.run.Visit(h)
	carrier.Hold(c.Ref().Object)
	carrier.Settled()
	c.Leave()
	carrier.Die()
	ctx, cancel := context.WithTimeout(context.Background(), transit/2)
	defer cancel()
	_, err = a.Recv(ctx)
	require.Equal(t, io.EOF, err)
}
