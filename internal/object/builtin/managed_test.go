package builtin_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/test/objecttest"
)

// bed is an object in a home.
type bed struct {
	t   *testing.T
	run *objecttest.Run
	h   *object.Server
	id  uint64
}

// asked returns what an operation is asked with: nothing, a number, or a struct
// of numbers and bools.
func asked(op any, ns []uint64) any {
	var q any
	switch op {
	case builtin.LockAcquire:
		q = new(builtin.LockWant)
	case builtin.LockReturn:
		q = new(builtin.LockBack)
	case builtin.LockWait:
		q = new(builtin.LockSleep)
	case builtin.LockNotify:
		q = new(builtin.LockNotice)
	default:
		if len(ns) == 0 {
			return nil
		}
		return ns[0]
	}
	v := reflect.ValueOf(q).Elem()
	for i, n := range ns {
		if f := v.Field(i); f.Kind() == reflect.Bool {
			f.SetBool(n == 1)
		} else {
			f.Set(reflect.ValueOf(n).Convert(f.Type()))
		}
	}
	return v.Interface()
}

func newBed(t *testing.T, kind string, args ...uint64) *bed {
	t.Helper()
	t.Parallel()
	run := objecttest.NewRun(t)
	h := run.Home("Home")
	what := builtin.Making{Kind: kind}
	if len(args) > 0 {
		what.N = int(args[0])
		what.Bounded = args[len(args)-1] == 1 && len(args) == 2
	}
	o, err := builtin.Make(h, what)
	require.NoError(t, err)
	ref, err := h.Make(o, true)
	require.NoError(t, err)
	return &bed{t, run, h, ref.Object}
}

// user is a process that uses the object.
type user struct {
	*objecttest.Visitor
	b *bed
}

func (b *bed) user() user {
	b.t.Helper()
	v := b.run.Visit(b.h)
	v.Hold(b.id)
	v.Settled()
	return user{v, b}
}

// begin sends a request.
func (u user) begin(op any, args ...uint64) (id uint64) {
	u.b.t.Helper()
	return u.Ask(u.b.id, op, asked(op, args))
}

// end waits for the answer, and returns it as text: see said.
func (u user) end(id uint64) string {
	u.b.t.Helper()
	return said(u.b.t, u.Reply(id))
}

// ask sends a request and waits for its answer.
func (u user) ask(op any, args ...uint64) string {
	u.b.t.Helper()
	return u.end(u.begin(op, args...))
}

// tell sends a request that wants no answer, and waits until it was handled.
func (u user) tell(op any, args ...uint64) {
	u.b.t.Helper()
	u.Tell(u.b.id, op, asked(op, args))
	u.Settled()
}

// said returns the numbers of an answer, or the code and text of a refusal.
func said(t *testing.T, r objecttest.Reply) string {
	t.Helper()
	if r.Code != 0 {
		return fmt.Sprint("refused ", r.Code, " ", string(r.Says[0]))
	}
	if len(r.Says[0]) == 0 {
		return "" // an object.None
	}
	var a any
	r.Read(t, &a) // a number below 128 is one byte, packed by hand or not
	fields, ok := a.(map[string]any)
	if !ok {
		return number(a)
	}
	var ns []string
	for _, name := range []string{"Got", "Abandoned", "Ended", "Parties", "Waiting", "Broken"} {
		if field, ok := fields[name]; ok {
			ns = append(ns, number(field))
		}
	}
	require.Len(t, ns, len(fields))
	return strings.Join(ns, " ")
}

func number(x any) string {
	switch x {
	case true:
		return "1"
	case false:
		return "0"
	}
	return fmt.Sprint(x)
}

// eventually polls, since a home notices only some time later that a process has
// gone.
func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "it does not happen")
	}
}

func word(s string, refs ...object.Ref) object.Value {
	return object.Encoded([][]byte{[]byte(s)}, refs...)
}

// part is the indices lo to hi-1 of a list, with the values that replace theirs.
func part(lo, hi int, values ...object.Value) builtin.ListPart {
	return builtin.ListPart{Lo: lo, Hi: hi, Values: values}
}

func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	_, err := builtin.Make(nil, builtin.Making{Kind: "pot"})
	require.ErrorContains(t, err, "pot")
}

// Requests that no Fiber sends, and those to an object of another sort, are
// refused, and change nothing.
func TestMalformedRequests(t *testing.T) {
	for _, kind := range []string{builtin.KindDict, builtin.KindList, builtin.KindLock, builtin.KindRLock, builtin.KindSemaphore,
		builtin.KindEvent, builtin.KindBarrier} {
		t.Run(kind, func(t *testing.T) {
			args := map[string][]uint64{builtin.KindSemaphore: {1, 0}, builtin.KindBarrier: {2}}[kind]
			b := newBed(t, kind, args...)
			u := b.user()
			own := objecttest.Number(map[string]any{builtin.KindDict: builtin.DictGet, builtin.KindList: builtin.ListGet, builtin.KindLock: builtin.LockAcquire,
				builtin.KindRLock: builtin.LockAcquire, builtin.KindSemaphore: builtin.LockAcquire, builtin.KindEvent: builtin.EventSet,
				builtin.KindBarrier: builtin.BarrierWait}[kind])
			refused := 0
			for op := range 256 {
				if byte(op)&^0xf == own&^0xf {
					continue // an operation of this sort
				}
				reply := u.Reply(u.Ask(b.id, byte(op), 0))
				require.NotZero(t, reply.Code, "operation %d", op)
				refused++
			}
			require.Equal(t, 240, refused)
			if kind == builtin.KindDict || kind == builtin.KindList {
				for op := own; op < own+7; op++ {
					for _, q := range []any{nil, 1 << 62, -1, []int{3, 0}, []object.Value{{}}, object.Value{}, builtin.ListPart{Lo: -2, Hi: -1}, builtin.ListPart{Hi: 1 << 40},
						builtin.ListWrite{Index: -1}, objecttest.Raw{}, objecttest.Raw{0x80, 1}, objecttest.Raw(strings.Repeat("\xff", 40))} {
						u.Reply(u.Ask(b.id, op, q)) // whatever the answer, the object lives
					}
				}
			}
			if kind == builtin.KindLock || kind == builtin.KindSemaphore { // no condition goes with it
				require.Contains(t, u.ask(builtin.LockCondition), "malformed")
			}
		})
	}
}

// The objects that values name live as long as the values are kept.
func TestNamesInValues(t *testing.T) {
	b := newBed(t, builtin.KindDict)
	u := b.user()
	made := func() object.Ref {
		o, err := builtin.Make(b.h, builtin.Making{Kind: builtin.KindEvent})
		require.NoError(t, err)
		ref, err := b.h.Make(o, false)
		require.NoError(t, err)
		return ref
	}
	holders := func(ref object.Ref) int { return len(b.h.Holders(ref.Object)) }
	send := func(op, q any) string {
		r := u.Reply(u.Ask(b.id, op, q))
		u.Settled() // freed values are released after the answer
		if r.Code != 0 {
			return said(t, r)
		}
		return ""
	}
	a, c, key := made(), made(), made()
	require.Empty(t, send(builtin.DictSet, []object.Value{word("k", key), word("v", a)}))
	require.Equal(t, []int{1, 0, 1}, []int{holders(a), holders(c), holders(key)})
	require.Empty(t, send(builtin.DictSet, []object.Value{word("k", key), word("w", c)}))
	require.Equal(t, []int{0, 1, 1}, []int{holders(a), holders(c), holders(key)})
	require.Empty(t, send(builtin.DictSetIf, builtin.DictWrite{Version: 99, Key: word("k"), Value: word("v", a)}))
	require.Equal(t, []int{0, 1, 1}, []int{holders(a), holders(c), holders(key)}, "what was not set is not held")
	require.Empty(t, send(builtin.DictGet, builtin.DictKey{Remove: true, Key: word("k")}))
	require.Equal(t, []int{0, 0, 0}, []int{holders(a), holders(c), holders(key)})
	require.Empty(t, send(builtin.DictSet, []object.Value{word("k", key), word("v", a), word("l"), word("v", a)}))
	require.Empty(t, send(builtin.DictGet, builtin.DictKey{Remove: true, Quiet: true, Key: word("k")}))
	require.Equal(t, []int{1, 0}, []int{holders(a), holders(key)}, "another value names it")
	require.Empty(t, send(builtin.DictClear, nil))
	require.Zero(t, holders(a))

	// A value that names its own object, and the values that are left at the end.
	self := object.Ref{Endpoint: a.Endpoint, Process: a.Process, Object: b.id}
	require.Empty(t, send(builtin.DictSet, []object.Value{word("me"), word("v", self, a)}))
	require.Empty(t, send(builtin.DictSet, []object.Value{word("me"), word("v", a)}))
	require.Equal(t, 1, holders(a))
	b.h.Remove(b.id)
	require.Zero(t, holders(a))
	require.Contains(t, send(builtin.DictLen, nil), fmt.Sprint("refused ", object.Gone))

	l := &bed{t, b.run, b.h, 0}
	o, err := builtin.Make(b.h, builtin.Making{Kind: builtin.KindList, Values: []object.Value{word("a", a)}})
	require.NoError(t, err)
	ref, err := b.h.Make(o, true)
	require.NoError(t, err)
	l.id = ref.Object
	b = l
	u = b.user()
	require.Equal(t, 1, holders(a))
	require.Empty(t, send(builtin.ListSplice, part(0, 1, word("c", c))))
	require.Equal(t, []int{0, 1}, []int{holders(a), holders(c)})
	require.Contains(t, send(builtin.ListSplice, part(1, 2, word("a", a))), "no index 1")
	require.Empty(t, send(builtin.ListSplice, part(0, 0, word("a", a))))
	require.Empty(t, send(builtin.ListSplice, part(1, 2)))
	require.Equal(t, []int{1, 0}, []int{holders(a), holders(c)})
	b.h.Remove(b.id)
	require.Zero(t, holders(a))
}

// All that wait at an object are told when it is dropped.
func TestDropTellsWhoWaits(t *testing.T) {
	for kind, wait := range map[string]func(user) uint64{
		builtin.KindEvent:     func(u user) uint64 { return u.begin(builtin.EventWait) },
		builtin.KindBarrier:   func(u user) uint64 { return u.begin(builtin.BarrierWait) },
		builtin.KindSemaphore: func(u user) uint64 { return u.begin(acquire, 1, 0) },
		builtin.KindLock: func(u user) uint64 {
			u.ask(acquire, 1, 0)
			return u.begin(acquire, 2, 0)
		},
		builtin.KindRLock: func(u user) uint64 {
			u.ask(acquire, 1, 0)
			return u.begin(builtin.LockWait, 1, 1, 1)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, kind, map[string][]uint64{builtin.KindSemaphore: {0, 0}, builtin.KindBarrier: {2}}[kind]...)
			u := b.user()
			id := wait(u)
			u.Silent()
			b.h.Remove(b.id)
			require.Equal(t, byte(object.Gone), u.Reply(id).Code)
		})
	}
}
