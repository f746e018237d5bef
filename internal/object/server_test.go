package object_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/test/objecttest"
)

func TestMain(m *testing.M) {
	object.Grace = 2 * time.Second // a busy machine may take long to take the next hold
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString("leak: " + err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// thing records what it is told. It answers echo, huge and hold, and keeps wait
// waiting.
type thing struct {
	events chan string

	mu      sync.Mutex
	waiting []object.Asked[said]
}

const (
	echo object.Op[said, said] = iota
	wait object.Op[said, said] = iota
	huge object.Op[said, said] = iota
	hold object.Op[said, said] = iota
)

// said is both what is asked and what is answered.
type said struct {
	Text  string
	Value object.Value
}

var nothing said

var table = object.Ops(
	object.On(echo, func(_ *thing, r object.Asked[said], q said) { r.Reply(q) }),
	object.On(huge, func(_ *thing, r object.Asked[said], _ said) { r.Reply(said{Text: string(make([]byte, 2<<20))}) }),
	object.On(hold, func(o *thing, r object.Asked[said], q said) {
		r.Until(func() { o.events <- "taken" })
		r.Reply(q)
	}),
	object.On(wait, func(o *thing, r object.Asked[said], _ said) {
		o.mu.Lock()
		o.waiting = append(o.waiting, r)
		o.mu.Unlock()
		o.events <- "asked"
	}),
)

func newObject() *thing { return &thing{events: make(chan string, 100)} }

func (o *thing) Serve(r *object.Request) { table.Serve(o, r) }

// answer answers all waiting requests.
func (o *thing) answer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.waiting {
		r.Reply(said{Text: "late"})
	}
	o.waiting = nil
}

func (o *thing) GiveUp(r *object.Request) {
	r.Fail(object.GivenUp, "")
	o.events <- "given up" // an answer from now on is dropped
}

func (o *thing) Left(p *object.Session, died bool) {
	if died {
		o.events <- "died"
		return
	}
	o.events <- "left"
}

func (o *thing) Drop() { o.events <- "dropped" }

// told checks what the object is told next.
func (o *thing) told(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-o.events:
			require.Equal(t, w, got)
		case <-time.After(time.Minute):
			require.FailNow(t, "it is not told: "+w)
		}
	}
}

// at makes a home with an object.
func at(t *testing.T, run *objecttest.Run, pinned bool) (*object.Server, *thing, object.Ref) {
	t.Helper()
	h, o := run.Home("Home"), newObject()
	ref, err := h.Make(o, pinned)
	require.NoError(t, err)
	return h, o, ref
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestObjectThatNobodyHoldsLapses(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	_, o, _ := at(t, run, false)
	o.told(t, "dropped")

	h, o, ref := at(t, run, false)
	h.Hold(ref)
	h.Hold(ref)
	v := run.Visit(h)
	v.Hold(ref.Object)
	v.Settled()
	h.Release(ref)
	h.Release(ref)
	o.told(t, "left")
	require.NotNil(t, h.Local(ref))
	v.Release(ref.Object)
	o.told(t, "left", "dropped")
	require.Nil(t, h.Local(ref))
	require.Equal(t, byte(object.Gone), v.Reply(v.Ask(ref.Object, echo, nothing)).Code)
	_, err := object.Ask(soon(t), h, ref, echo, nothing, nil)
	require.ErrorIs(t, err, object.ErrGone)
}

// A new hold, taken before the object lapses, keeps it.
func TestHoldInTime(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, false)
	v := run.Visit(h)
	v.Hold(ref.Object)
	for range 3 {
		v.Release(ref.Object)
		v.Hold(ref.Object)
		o.told(t, "left")
	}
	time.Sleep(2 * object.Grace) // nothing happens
	v.Release(ref.Object)
	o.told(t, "left", "dropped")
}

func TestHoldersThatEnd(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, false)
	dies, ends := run.Visit(h), run.Visit(h)
	for _, v := range []*objecttest.Visitor{dies, ends} {
		v.Hold(ref.Object)
		v.Settled()
	}
	require.Len(t, h.Holders(ref.Object), 2)
	ends.Bye()
	o.told(t, "left")
	dies.Ask(ref.Object, wait, nothing)
	o.told(t, "asked")
	dies.Die()
	o.told(t, "given up", "died", "dropped")
}

func TestPinnedObjectStays(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	h.Hold(ref)
	h.Release(ref)
	o.told(t, "left")
	time.Sleep(2 * object.Grace) // nothing happens
	require.NotNil(t, h.Local(ref))
	h.Remove(ref.Object)
	h.Remove(ref.Object)
	o.told(t, "dropped")
}

func TestCall(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	for _, user := range []*object.Server{h, run.Home("User")} {
		a, err := object.Ask(soon(t), user, ref, echo, said{"args", object.Encoded([][]byte{[]byte("value"), []byte("more")})}, nil)
		require.NoError(t, err)
		require.Equal(t, "args", a.Text)
		require.Equal(t, [][]byte{[]byte("value"), []byte("more")}, a.Value.Frames())

		ctx, cancel := context.WithCancel(soon(t))
		cancel()
		_, err = object.Ask(ctx, user, ref, echo, nothing, nil)
		require.ErrorIs(t, err, context.Canceled)

		// The object is told that the request is given up.
		ctx, cancel = context.WithCancel(soon(t))
		go func() { o.told(t, "asked"); cancel() }()
		_, err = object.Ask(ctx, user, ref, wait, nothing, func(said) { o.events <- "late" })
		require.ErrorIs(t, err, context.Canceled)
		o.told(t, "given up")
		o.answer()

		// The same, and without late Ask returns only when that is settled.
		ctx, cancel = context.WithCancel(soon(t))
		go func() { o.told(t, "asked"); cancel() }()
		_, err = object.Ask(ctx, user, ref, wait, nothing, nil)
		require.ErrorIs(t, err, context.Canceled)
		o.told(t, "given up")
	}
}

// An answer that crosses with the giving up is passed to late, or, without late,
// returned.
func TestAnswerThatCrosses(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	for _, user := range []string{"here", "elsewhere"} {
		h := run.Home("Home")
		o := &crossing{newObject()}
		ref, err := h.Make(o, true)
		require.NoError(t, err)
		from := h
		if user == "elsewhere" {
			from = run.Home("User")
		}
		ctx, cancel := context.WithCancel(soon(t))
		go func() { o.told(t, "asked"); cancel() }()
		_, err = object.Ask(ctx, from, ref, wait, nothing, func(a said) { o.events <- a.Text })
		require.ErrorIs(t, err, context.Canceled)
		o.told(t, "late")

		ctx, cancel = context.WithCancel(soon(t))
		go func() { o.told(t, "asked"); cancel() }()
		a, err := object.Ask(ctx, from, ref, wait, nothing, nil)
		require.NoError(t, err)
		require.Equal(t, "late", a.Text)
	}
}

// crossing answers its requests when they are given up.
type crossing struct{ *thing }

func (c *crossing) GiveUp(*object.Request) { c.answer() }

func TestAnswerThatIsTooLarge(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, _, ref := at(t, run, true)
	v := run.Visit(h)
	require.Equal(t, byte(object.TooLarge), v.Reply(v.Ask(ref.Object, huge, nothing)).Code)
	require.Zero(t, v.Reply(v.Ask(ref.Object, echo, nothing)).Code)
}

// The objects that an answer names are held until the answer has been taken, or
// the requester has gone.
func TestAnswerIsTaken(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	v := run.Visit(h)
	v.Keeps = true
	id := v.Ask(ref.Object, hold, nothing)
	v.Reply(id)
	other := v.Ask(ref.Object, hold, nothing)
	v.Reply(other)
	v.Settled()
	require.Empty(t, o.events)
	v.Took(id)
	v.Took(id)
	o.told(t, "taken")
	v.Settled()
	require.Empty(t, o.events)
	v.Die()
	o.told(t, "taken")

	user := run.Home("User")
	_, err := object.Ask(soon(t), user, ref, hold, said{Text: "named"}, nil)
	require.NoError(t, err)
	for len(o.events) == 0 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	o.told(t, "taken")
}

// An answer that is given up while it is being made is never taken. The objects
// that it names are released exactly once.
func TestAnswerThatIsGivenUpIsTakenByNobody(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o, ref := at(t, run, true)
	v := run.Visit(h)
	var first, rest atomic.Int32
	for i := range int32(100) {
		id := v.Ask(ref.Object, wait, nothing)
		o.told(t, "asked")
		o.mu.Lock()
		r := o.waiting[len(o.waiting)-1]
		o.mu.Unlock()
		r.Until(func() { first.Add(1) })
		answered := make(chan struct{})
		go func() {
			for range 10 {
				r.Until(func() { rest.Add(1) })
			}
			r.Reply(nothing)
			close(answered)
		}()
		v.GiveUp(id)
		v.Reply(id)
		v.Settled()
		<-answered
		for len(o.events) > 0 { // if the request was given up before its answer
			o.told(t, "given up")
		}
		require.Equal(t, i+1, first.Load())
		require.Equal(t, 10*(i+1), rest.Load())
	}
}

// A home that ends tells all its users, and whether it was closed; a home that is
// lost cannot.
func TestHomeThatEnds(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	for _, closed := range []bool{true, false} {
		h, o, ref := at(t, run, true)
		user := run.Home("User")
		user.Hold(ref)
		ended := func(err error) {
			t.Helper()
			var lost *object.LostError
			require.Equal(t, closed, errors.Is(err, object.ErrEnded), "%v", err)
			require.Equal(t, !closed, errors.As(err, &lost), "%v", err)
			if !closed {
				require.Equal(t, os.Getpid(), lost.Ref.PID)
			}
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := object.Ask(soon(t), user, ref, wait, nothing, nil)
			waiting <- err
		}()
		lost := make(chan byte, 10)
		user.Watch(ref, func(notice *object.Request) { lost <- notice.Op })
		o.told(t, "asked")
		h.Ends(closed)
		h.Ends(!closed) // only the first call counts
		h.Close()
		h.Close()
		o.told(t, "dropped")
		ended(<-waiting)
		require.Equal(t, byte(object.NoticeLost), <-lost)
		_, err := object.Ask(soon(t), user, ref, echo, nothing, nil)
		ended(err)
		require.Error(t, object.Tell(soon(t), user, ref, echo, nothing))
		object.Post(user, ref, echo, nothing)
		_, err = h.Make(newObject(), false)
		require.ErrorIs(t, err, tree.ErrShutdown)
		_, err = object.Ask(soon(t), h, ref, echo, nothing, nil)
		require.ErrorIs(t, err, tree.ErrShutdown)
	}

	user := run.Home("User")
	// Nothing has ever listened there.
	_, err := object.Ask(soon(t), user, object.Ref{Endpoint: "unix:/nowhere/socket", Process: "Process-7"}, echo, nothing, nil)
	var gone *object.LostError
	require.ErrorAs(t, err, &gone)
}

// dropping is an object that does something when it is dropped.
type dropping struct {
	*thing
	do func()
}

func (d dropping) Drop() { d.do() }

// A process that first turns to a home while that closes is told, too.
func TestHomeThatIsClosing(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, user := run.Home("Home"), run.Home("User")
	var ref object.Ref
	var err error
	ref, made := h.Make(dropping{newObject(), func() { _, err = object.Ask(soon(t), user, ref, echo, nothing, nil) }}, true)
	require.NoError(t, made)
	h.Ends(true)
	h.Close()
	require.ErrorIs(t, err, object.ErrEnded)
}

// Notices come in order to all watchers, in this process and elsewhere.
func TestNotices(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, _, ref := at(t, run, true)
	for _, user := range []*object.Server{h, run.Home("User")} {
		user.Hold(ref)
		_, err := object.Ask(soon(t), user, ref, echo, nothing, nil)
		require.NoError(t, err)
		heard := make(chan string, 100)
		table := object.Table[any]{}
		for i := range 10 {
			maps.Copy(table, object.Ops(object.On(object.Op[said, object.None]('a'+i), func(_ any, r object.Asked[object.None], q said) {
				heard <- string(r.Op) + q.Text
			})))
		}
		stop := user.Watch(ref, func(notice *object.Request) { table.Serve(nil, notice) })
		holders := h.Holders(ref.Object)
		for i := range 10 {
			for _, p := range holders {
				require.Contains(t, h.Holders(ref.Object), p)
				object.Notify(p, ref.Object, object.Op[said, object.None]('a'+i), said{Text: "-+"})
			}
		}
		for i := range 10 {
			require.Equal(t, string(rune('a'+i))+"-+", <-heard)
		}
		stop()
		user.Release(ref)
	}
}

// The last hold of an object may be released under the object's own lock.
func TestReleaseUnderTheObjectsLock(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h := run.Home("Home")
	o := &locked{thing: newObject()}
	ref, err := h.Make(o, false)
	require.NoError(t, err)
	h.Hold(ref)
	o.lock.Lock()
	h.Release(ref)
	o.lock.Unlock()
	o.told(t, "left", "dropped")
}

type locked struct {
	*thing
	lock sync.Mutex
}

func (l *locked) Left(p *object.Session, died bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.thing.Left(p, died)
}

// closes closes three homes at most. One of them must close within half of a
// handshake's time limit; on a busy machine the others may not.
func closes(t *testing.T, made func() *object.Server, otherwise string) {
	t.Helper()
	for range 3 {
		h := made()
		begun := time.Now()
		h.Close()
		if time.Since(begun) < 5*time.Second {
			return
		}
	}
	require.Fail(t, otherwise)
}

// The end of a home does not wait for homes that do not answer.
func TestCloseWhileDialling(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	closes(t, func() *object.Server {
		h := objecttest.NewRun(t).Home("Home")
		h.Hold(object.Ref{Endpoint: "tls:" + silent.Addr().String(), Object: 1, Process: "Silent"})
		conn, err := silent.Accept() // the home has dialled
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return h
	}, "it still dials")
}

// A user that reads nothing makes a home's goodbyes take all of their time. The
// home still leaves other homes.
func TestCloseWithAUserThatDoesNotRead(t *testing.T) {
	t.Parallel()
	closes(t, func() *object.Server {
		run := objecttest.NewRun(t)
		h, _, ref := at(t, run, true)
		endpoint, err := h.Endpoint()
		require.NoError(t, err)
		conn, err := run.Dial(endpoint)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, conn.Send(soon(t), wire.MustPack(wire.KindVisit, wire.Visit{Name: "Deaf"})...))
		for id := range uint64(24) { // asks for more than a socket holds, but less than the home queues, and reads nothing
			asked, err := codec.Marshal(said{Value: object.Value{First: make([]byte, 1<<19)}})
			require.NoError(t, err)
			m := wire.Request{ID: id + 1, Object: ref.Object, Op: echo.Number()}
			require.NoError(t, conn.Send(soon(t), m.Pack(wire.KindRequest, asked...)...))
		}
		for range 16 {
			_, _, other := at(t, run, true)
			_, err := object.Ask(soon(t), h, other, echo, nothing, nil)
			require.NoError(t, err)
		}
		return h
	}, "it has not left")
}

// large counts its requests, and answers each with much.
type large struct {
	object.Object
	served atomic.Int64
}

const largeAnswer = 512 << 10

func (o *large) Serve(r *object.Request) {
	o.served.Add(1)
	object.Asked[said]{Request: r}.Reply(said{Value: object.Value{First: make([]byte, largeAnswer)}})
}

func (o *large) GiveUp(*object.Request)     {}
func (o *large) Left(*object.Session, bool) {}
func (o *large) Drop()                      {}

// A process that asks and does not read is not served beyond a bound. That holds
// up nobody else, and it gets all answers once it reads.
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h, o := run.Home("Home"), new(large)
	ref, err := h.Make(o, true)
	require.NoError(t, err)
	conn, err := run.Dial(ref.Endpoint)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Post(wire.MustPack(wire.KindVisit, wire.Visit{Name: "Glutton"})...))
	const n, bound = 300, (16<<20)/largeAnswer + 10 // and what sockets hold
	frames, err := codec.Marshal(said{})
	require.NoError(t, err)
	for id := range uint64(n) {
		m := wire.Request{ID: id + 1, Object: ref.Object}
		require.NoError(t, conn.Post(m.Pack(wire.KindRequest, slices.Clone(frames)...)...))
	}
	other := run.Visit(h)
	for o.served.Load() < bound/2 {
		other.Settled()
	}
	for range 2000 {
		other.Settled()
	}
	for got := range int64(n) {
		require.LessOrEqual(t, o.served.Load(), got+bound)
		_, err := conn.Recv()
		require.NoError(t, err)
	}
	require.EqualValues(t, n, o.served.Load())
	for id := range uint64(n) { // its death ends the wait
		m := wire.Request{ID: n + id + 1, Object: ref.Object}
		require.NoError(t, conn.Post(m.Pack(wire.KindRequest, slices.Clone(frames)...)...))
	}
	for o.served.Load() < n+bound/2 {
		other.Settled()
	}
	conn.Close()
	h.Close()
}
