package custom_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/test/objecttest"
)

// thing is an object of the tests. Its method reports that it has begun, and
// waits until letGo is closed or its context ends.
type thing struct {
	begun  chan string
	letGo  chan struct{}
	closed atomic.Int32
}

func (t *thing) Close() error {
	t.closed.Add(1)
	return errors.New("a Close that fails")
}

// things holds what the next constructor returns. One test at a time uses it.
var things = make(chan *thing, 1)

func init() {
	registry.Add(registry.Type, "thing", "", "here", &custom.Type{Recv: "*thing", New: func(ctx context.Context, in [][]byte) (any, error) {
		t := <-things
		if string(in[0]) == "slow" {
			t.begun <- "New"
			<-ctx.Done()
			<-t.letGo
			if t.closed.Load() < 0 {
				return nil, ctx.Err()
			}
		}
		return t, nil
	}})
	registry.Add(registry.Method, "*thing.Do", "", "here", &custom.Method{Recv: "*thing", Call: func(ctx context.Context, made any, in [][]byte) ([][]byte, any, error) {
		t := made.(*thing)
		t.begun <- string(in[0])
		select {
		case <-t.letGo:
			return in, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}})
	registry.Add(registry.Method, "*other.Do", "", "here", &custom.Method{Recv: "*other"})
}

// world is a manager's service, a user of it, and a thing.
type world struct {
	*testing.T
	run     *objecttest.Run
	home    *object.Server
	service *custom.Service
	id      uint64
	*thing
}

func newWorld(t *testing.T) *world { return newWorldWhere(t, time.Hour) }

// newWorldWhere makes a world with a heartbeat_timeout, on which it depends how long an object waits for a holder.
func newWorldWhere(t *testing.T, silence time.Duration) *world {
	w := &world{T: t, run: objecttest.NewRun(t), thing: &thing{begun: make(chan string, 100), letGo: make(chan struct{})}}
	w.run.Silence(silence)
	w.home = w.run.Home("Manager-1")
	failure := func(fn string, err error) *wire.Error {
		return &wire.Error{Func: fn, Message: err.Error(), Canceled: errors.Is(err, context.Canceled)}
	}
	w.service = custom.NewService(w.home, custom.Options{
		Error: failure,
		Fits:  func([][]byte) error { return nil },
		Log:   func(string, *wire.Error) {},
	})
	ref, err := w.home.Make(w.service, true)
	require.NoError(t, err)
	w.id = ref.Object
	things <- w.thing
	t.Cleanup(func() {
		select {
		case <-things:
		default:
		}
	})
	return w
}

// named makes the argument of the type or method of a name.
func named(name, value string) custom.Argument {
	return custom.Argument{Name: name, Value: object.Value{First: []byte(value)}}
}

// make makes a thing, and holds it.
func (w *world) make(v *objecttest.Visitor) (made uint64) {
	made = w.made(v)
	v.Hold(made)
	return made
}

// made makes a thing. Unless v keeps the answer, nobody holds the thing.
func (w *world) made(v *objecttest.Visitor) uint64 {
	var ref object.Ref
	_, err := ref.Read([]byte(text(w.T, v.Reply(v.Ask(w.id, custom.New, named("thing", "fast"))))))
	require.NoError(w, err)
	return ref.Object
}

// Whoever has made an object may be stopped before it holds the object. The object waits.
func TestMakerThatIsStopped(t *testing.T) {
	w := newWorldWhere(t, 2*time.Second)
	v, quick := w.run.Visit(w.home), w.run.Visit(w.home)
	v.Keeps = true // the answer is unread
	made := w.made(v)
	things <- &thing{}
	lapsed := w.made(quick)
	require.Eventually(t, func() bool {
		return quick.Reply(quick.Ask(lapsed, custom.Call, named("nothing", ""))).Code == object.Gone
	},
		time.Minute, time.Millisecond, "what nobody holds stays")
	v.Hold(made)
	close(w.letGo)
	require.Equal(t, "still there", text(t, v.Reply(w.do(v, made, "still there"))))
}

func (w *world) do(v *objecttest.Visitor, made uint64, text string) (id uint64) {
	return v.Ask(made, custom.Call, named("*thing.Do", text))
}

// text returns the result of a call.
func text(t *testing.T, r objecttest.Reply) string {
	t.Helper()
	var v object.Value
	r.Read(t, &v)
	return string(v.First)
}

func (w *world) begins(text string) {
	w.Helper()
	select {
	case got := <-w.begun:
		require.Equal(w, text, got)
	case <-time.After(time.Minute):
		require.FailNow(w, text+" never begins")
	}
}

func (w *world) idle() {
	w.Helper()
	require.Empty(w, w.begun, "a call has begun")
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	for _, test := range []struct {
		made uint64
		op   any
		q    any
		text string
	}{
		{w.id, custom.New, named("nothing", "value"), `type "nothing" is not registered`},
		{w.id, custom.New, objecttest.Raw{200}, "malformed"},
		{w.id, custom.Call, named("thing", "value"), "malformed"},
		{w.id, custom.Make, "kind", "malformed"},
		{w.id, custom.Make, builtin.Making{Kind: "kind", Values: []object.Value{{}}}, `a manager makes no "kind"`},
		{made, custom.Call, named("nothing", "value"), "method nothing is not registered"},
		{made, custom.Call, named("*other.Do", "value"), "method *other.Do belongs to *other, but the object, a thing, is a *thing"},
		{made, custom.Call, objecttest.Raw{200}, "malformed"},
		{made, custom.New, named("*thing.Do", "value"), "malformed"},
	} {
		r := v.Reply(v.Ask(test.made, test.op, test.q))
		require.Equal(t, byte(object.Unknown), r.Code)
		require.Contains(t, string(r.Says[0]), test.text)
	}
	w.idle()
}

// A waiting call that is given up never begins, and the others keep their order.
// A running call that is given up has its context cancelled.
func TestGiveUp(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	var ids []uint64
	for i := range 6 {
		ids = append(ids, w.do(v, made, fmt.Sprint(i)))
	}
	w.begins("0")
	for _, i := range []int{1, 4, 3} {
		v.GiveUp(ids[i])
		require.Equal(t, byte(object.GivenUp), v.Reply(ids[i]).Code)
	}
	v.GiveUp(ids[1]) // already answered
	v.Settled()
	w.idle()
	v.GiveUp(ids[0])
	require.Equal(t, byte(object.LetGo), v.Reply(ids[0]).Code)
	w.begins("2")
	w.letGo <- struct{}{}
	require.Equal(t, "2", text(t, v.Reply(ids[2])))
	w.begins("5")
	w.letGo <- struct{}{}
	require.Equal(t, "5", text(t, v.Reply(ids[5])))
	v.Settled()
	w.idle()
}

// However many waiting calls are given up while one runs, or their callers die,
// nothing of them is left. The others keep their order.
func TestNothingIsLeftOfCallsGivenUp(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	running := w.do(v, made, "running")
	w.begins("running")
	v.Settled()
	before := runtime.NumGoroutine()
	var kept []uint64
	for i := range 1000 {
		if i%400 == 0 {
			kept = append(kept, w.do(v, made, fmt.Sprint(i)))
		}
		id := w.do(v, made, "given up")
		v.GiveUp(id)
		require.Equal(t, byte(object.GivenUp), v.Reply(id).Code)
	}
	other := w.run.Visit(w.home)
	for range 100 {
		w.do(other, made, "of one that dies")
	}
	other.Settled()
	other.Die()
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "something is left")
	}
	w.letGo <- struct{}{}
	require.Equal(t, "running", text(t, v.Reply(running)))
	for i, id := range kept {
		w.begins(fmt.Sprint(400 * i))
		w.letGo <- struct{}{}
		require.Equal(t, fmt.Sprint(400*i), text(t, v.Reply(id)))
	}
	v.Settled()
	w.idle()
}

// When a process dies, its waiting calls never begin and its running ones are
// cancelled. Other processes' calls go on, and the object lives.
func TestCallerDies(t *testing.T) {
	w := newWorld(t)
	v, other := w.run.Visit(w.home), w.run.Visit(w.home)
	made := w.make(other)
	w.do(v, made, "running")
	w.begins("running")
	w.do(v, made, "waiting")
	v.Settled()
	id := w.do(other, made, "other's")
	other.Settled()
	w.do(v, made, "waiting, too")
	v.Settled()
	v.Die()
	w.begins("other's")
	w.letGo <- struct{}{}
	require.Zero(t, other.Reply(id).Code)
	other.Settled()
	w.idle()
	require.Zero(t, w.closed.Load())
}

// An object is closed if the process that has asked for it gave up.
func TestNewGivenUp(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	id := v.Ask(w.id, custom.New, named("thing", "slow"))
	w.begins("New")
	v.GiveUp(id)
	require.Equal(t, byte(object.LetGo), v.Reply(id).Code)
	w.letGo <- struct{}{}
	require.Eventually(t, func() bool { return w.closed.Load() == 1 }, time.Minute, time.Millisecond)
}

// End refuses waiting calls, cancels running ones, and closes objects once their
// last call has returned.
func TestEnd(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	running, waiting := w.do(v, made, "running"), w.do(v, made, "waiting")
	w.begins("running")
	v.Settled()
	ended := make(chan struct{})
	go func() { w.service.End(t.Context()); close(ended) }()
	codes := map[byte]int{}
	for _, id := range []uint64{waiting, running} { // the waiting call is refused first
		codes[v.Reply(id).Code]++
	}
	require.Equal(t, map[byte]int{object.Gone: 2}, codes)
	<-ended
	require.EqualValues(t, 1, w.closed.Load())
	require.Equal(t, byte(object.Gone), v.Reply(w.do(v, made, "later")).Code)
	require.Equal(t, byte(object.Gone), v.Reply(v.Ask(w.id, custom.New, named("thing", "fast"))).Code)
	w.service.End(t.Context())
	w.idle()
	require.EqualValues(t, 1, w.closed.Load(), "closed twice")
}

// End waits for a constructor that runs, and closes what it makes.
func TestEndWhileAnObjectIsMade(t *testing.T) {
	for name_, fails := range map[string]bool{"made": false, "failed": true} {
		t.Run(name_, func(t *testing.T) {
			w := newWorld(t)
			if fails {
				w.closed.Store(-1)
			}
			v := w.run.Visit(w.home)
			id := v.Ask(w.id, custom.New, named("thing", "slow"))
			w.begins("New")
			short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			w.service.End(short)
			require.Error(t, short.Err(), "it does not wait")
			close(w.letGo)
			require.Equal(t, byte(object.Gone), v.Reply(id).Code)
			w.service.End(t.Context())
			if !fails {
				require.EqualValues(t, 1, w.closed.Load())
			}
		})
	}
}

// An object without holders is closed when its last call has ended, not before.
func TestDropWhileACallRuns(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	id := w.do(v, made, "running")
	w.begins("running")
	w.home.Remove(made)
	require.Equal(t, byte(object.Gone), v.Reply(id).Code)
	require.Eventually(t, func() bool { return w.closed.Load() == 1 }, time.Minute, time.Millisecond)
}

// All failures travel, whatever they are.
func TestFailure(t *testing.T) {
	require.Equal(t, &wire.Error{Message: "no failure"}, custom.Failure("no failure"))
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	id := w.do(v, made, "x")
	w.begins("x")
	close(w.letGo)
	require.Zero(t, v.Reply(id).Code)
	r := v.Reply(v.Ask(made, custom.Call, custom.Argument{Name: "*thing.Do"})) // without a value it panics
	require.Equal(t, byte(custom.Failed), r.Code)
	failure := custom.Failure(string(r.Says[0]))
	require.Equal(t, "*thing.Do", failure.Func)
	require.Contains(t, failure.Message, "out of range")
}

// A call whose deadline is over never begins.
func TestOverdueCall(t *testing.T) {
	w := newWorld(t)
	v := w.run.Visit(w.home)
	made := w.make(v)
	first := w.do(v, made, "first")
	w.begins("first")
	late := v.Overdue(made, custom.Call, named("*thing.Do", "late"))
	last := w.do(v, made, "last")
	v.Settled()
	w.letGo <- struct{}{}
	require.Equal(t, "first", text(t, v.Reply(first)))
	w.begins("last")
	w.letGo <- struct{}{}
	require.Equal(t, "last", text(t, v.Reply(last)))
	v.GiveUp(late)
	require.Equal(t, byte(object.GivenUp), v.Reply(late).Code)
}
