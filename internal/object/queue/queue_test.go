package queue_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/queue"
	"github.com/fiber-go/fiber/test/objecttest"
)

// bed is a queue whose items are single bytes.
type bed struct {
	t   *testing.T
	run *objecttest.Run
	h   *object.Server
	id  uint64
}

func newBed(t *testing.T, capacity int) *bed {
	t.Helper()
	t.Parallel()
	run := objecttest.NewRun(t)
	h := run.Home("Home")
	ref, err := h.Make(queue.New(h, capacity), true)
	require.NoError(t, err)
	return &bed{t, run, h, ref.Object}
}

// user is a process that uses the queue.
func (b *bed) user() user {
	b.t.Helper()
	v := b.run.Visit(b.h)
	v.Hold(b.id)
	v.Settled()
	return user{v, b}
}

type user struct {
	*objecttest.Visitor
	b *bed
}

func (u user) put(items string) (id uint64) {
	u.b.t.Helper()
	var values []object.Value
	for i := range items {
		values = append(values, object.Value{First: []byte{items[i]}})
	}
	return u.Ask(u.b.id, queue.Put, values)
}

// puts sends a Put of items and waits for the answer.
func (u user) puts(items string) {
	u.b.t.Helper()
	require.Zero(u.b.t, u.Reply(u.put(items)).Code)
}

func (u user) get(n int) (id uint64) {
	u.b.t.Helper()
	return u.Ask(u.b.id, queue.Get, n)
}

// got waits for a delivery.
func (u user) got(id uint64) (delivery uint64, items string) {
	u.b.t.Helper()
	var d queue.Delivery
	u.Reply(id).Read(u.b.t, &d)
	for _, v := range d.Items {
		items += string(v.First)
	}
	return d.ID, items
}

// gets sends a Get and waits for the delivery.
func (u user) gets(n int) (delivery uint64, items string) {
	u.b.t.Helper()
	return u.got(u.get(n))
}

func (u user) settle(op object.Op[uint64, object.None], delivery uint64) {
	u.b.t.Helper()
	u.Tell(u.b.id, op, delivery)
}

func (u user) len() (n int) {
	u.b.t.Helper()
	u.Reply(u.Ask(u.b.id, queue.Len, nil)).Read(u.b.t, &n)
	return n
}

// eventually polls the queue's length, which changes once the home has noticed
// that a process has gone.
func (u user) eventually(n int) {
	u.b.t.Helper()
	for deadline := time.Now().Add(time.Minute); u.len() != n; time.Sleep(time.Millisecond) {
		require.True(u.b.t, time.Now().Before(deadline), "%d items, not %d", u.len(), n)
	}
}

// The items that a dead consumer was handed come back in their order, before all
// others, except those that it has acknowledged.
func TestDeliveriesOfADeadConsumer(t *testing.T) {
	for name, end := range map[string]func(user){
		"dies":     func(u user) { u.Die() },
		"ends":     func(u user) { u.Bye() },
		"releases": func(u user) { u.Release(u.b.id) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 0)
			u, other := b.user(), b.user()
			other.puts("abcdefgh")
			_, first := u.gets(1)
			second, bc := u.gets(2)
			_, third := u.gets(3)
			require.Equal(t, "a bc def", first+" "+bc+" "+third)
			u.settle(queue.Taken, second)
			u.Settled()
			end(u)
			other.eventually(6)
			_, items := other.gets(100)
			require.Equal(t, "adefgh", items)
		})
	}
}

// Only the receiver of a delivery settles it, whatever others say.
func TestDeliveryIsSettledByWhoGotIt(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	other.puts("a")
	delivery, _ := u.gets(1)
	for _, op := range []object.Op[uint64, object.None]{queue.Taken, queue.Back} {
		other.settle(op, delivery)
		other.Settled()
		require.Zero(t, other.len())
	}
	u.Die()
	other.eventually(1)
}

// A waiting Get receives items that come back.
func TestWhatComesBackGoesToWhoWaits(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	u.puts("a")
	u.gets(1)
	waiting := other.get(1)
	other.GiveUp(999) // an unknown request
	u.Die()
	_, items := other.got(waiting)
	require.Equal(t, "a", items)
}

func TestDeliveryGivenBack(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	u.puts("abc")
	id, _ := u.gets(2)
	u.settle(queue.Back, id)
	u.settle(queue.Back, id)
	u.settle(queue.Taken, id)
	u.settle(queue.Taken, 999)
	_, items := u.gets(3)
	require.Equal(t, "abc", items)
}

func TestGetterThatGaveUp(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	id := u.get(1)
	u.GiveUp(id)
	require.Equal(t, byte(object.GivenUp), u.Reply(id).Code)
	u.puts("a")
	require.Equal(t, 1, u.len(), "an item for somebody who gave up")
	// The item of a getter that gives up too late is back as well, once.
	id = u.get(1)
	delivery, _ := u.got(id)
	u.GiveUp(id)
	require.Equal(t, 1, u.len())
	u.settle(queue.Back, delivery)
	require.Equal(t, 1, u.len())
}

// A dead process's waiting Get takes nothing.
func TestGetterThatDied(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	u.get(1)
	u.get(1)
	u.Settled()
	u.Die()
	// The end of its connection may be seen after the items have come.
	other.puts("ab")
	other.eventually(2)
}

func TestPutterWaitsForRoom(t *testing.T) {
	b := newBed(t, 2)
	u, other := b.user(), b.user()
	u.puts("ab")
	long := u.put("cde")
	u.Settled()
	next := other.put("x")
	other.Settled()
	_, items := b.user().gets(1)
	require.Equal(t, "a", items)
	taker := b.user()
	_, items = taker.gets(2)
	require.Equal(t, "bc", items)
	require.Zero(t, u.Reply(long).Code)
	_, items = taker.gets(2)
	require.Equal(t, "de", items, "who came later was first")
	require.Zero(t, other.Reply(next).Code)
}

// A Put that is given up has put some of its items; the others are never put.
func TestPutterThatGaveUp(t *testing.T) {
	b := newBed(t, 2)
	u, other := b.user(), b.user()
	long := u.put("abcde")
	u.Settled()
	next := other.put("x")
	other.Settled()
	u.GiveUp(long)
	said := u.Reply(long)
	require.Equal(t, byte(queue.Partly), said.Code)
	require.Equal(t, "2", string(said.Says[0]))
	_, items := u.gets(10)
	require.Equal(t, "ab", items)
	require.Zero(t, other.Reply(next).Code)
	_, items = u.gets(10)
	require.Equal(t, "x", items)
}

// A closed queue takes no more items. It still hands out the items in it, and
// those that a getter gives back.
func TestCloseWithAllSortsOfWaiters(t *testing.T) {
	b := newBed(t, 1)
	putter, getter, joiner := b.user(), b.user(), b.user()
	putter.puts("a")
	delivery, _ := getter.gets(1)
	putter.puts("b")
	put := putter.put("c")
	putter.Settled()
	join := joiner.Ask(b.id, queue.Join, nil)
	joiner.Settled()
	closer := b.user()
	for range 2 {
		require.Zero(t, closer.Reply(closer.Ask(b.id, queue.Close, nil)).Code)
	}
	require.Equal(t, byte(queue.Closed), putter.Reply(put).Code)
	require.Equal(t, byte(queue.Closed), putter.Reply(putter.put("d")).Code)
	second, items := getter.gets(1)
	require.Equal(t, "b", items)
	getter.settle(queue.Taken, second)
	other := b.user()
	waiting := getter.get(1)
	getter.Settled() // the second Get waits for what becomes of the first item
	last := other.get(1)
	other.Settled()
	getter.settle(queue.Back, delivery)
	delivery, items = getter.got(waiting)
	require.Equal(t, "a", items)
	getter.settle(queue.Taken, delivery)
	require.Equal(t, byte(queue.Closed), other.Reply(last).Code, "nothing is left")
	require.Equal(t, byte(queue.Closed), getter.Reply(getter.get(1)).Code)
	done := joiner.Ask(b.id, queue.Done, 2)
	require.Zero(t, joiner.Reply(join).Code, "all items were dealt with")
	require.Zero(t, joiner.Reply(done).Code)
}

// All that wait at a queue are told when it is gone.
func TestDropWithAllSortsOfWaiters(t *testing.T) {
	b := newBed(t, 1)
	putter, getter, joiner := b.user(), b.user(), b.user()
	putter.puts("a")
	put := putter.put("b")
	putter.Settled()
	join := joiner.Ask(b.id, queue.Join, nil)
	joiner.Settled()
	empty := &bed{t, b.run, b.h, 0}
	ref, err := b.h.Make(queue.New(b.h, 0), true)
	require.NoError(t, err)
	empty.id = ref.Object
	waiting := getter.Ask(empty.id, queue.Get, 1)
	getter.Settled()
	b.h.Remove(empty.id)
	b.h.Remove(b.id)
	require.Equal(t, byte(object.Gone), getter.Reply(waiting).Code, "nobody has closed it")
	require.Equal(t, byte(object.Gone), putter.Reply(put).Code)
	require.Equal(t, byte(object.Gone), joiner.Reply(join).Code)
}

// A request that has found the queue, and comes to it when it has been dropped, is refused: nothing is known of the items.
func TestRequestsAfterTheDrop(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h := run.Home("Home")
	q := queue.New(h, 0)
	ref, err := h.Make(q, true)
	require.NoError(t, err)
	u := user{run.Visit(h), &bed{t, run, h, ref.Object}}
	u.puts("a")
	delivery, _ := u.gets(1)
	u.settle(queue.Taken, delivery)
	q.Drop()
	for _, ask := range []func() uint64{
		func() uint64 { return u.Ask(ref.Object, queue.Done, 1) },
		func() uint64 { return u.Ask(ref.Object, queue.Join, object.None{}) },
		func() uint64 { return u.Ask(ref.Object, queue.Len, object.None{}) },
		func() uint64 { return u.get(1) },
		func() uint64 { return u.put("b") },
	} {
		require.Equal(t, byte(object.Gone), u.Reply(ask()).Code)
	}
}

// Messages that no Fiber sends are refused, and the connection lives on.
func TestMalformedRequests(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	for _, m := range []struct {
		op, q any
	}{{queue.Get, nil}, {queue.Get, 0}, {queue.Get, -1}, {queue.Get, uint64(1 << 63)}, {queue.Get, objecttest.Raw{}}, {queue.Put, 1},
		{queue.Put, objecttest.Raw{0xdd, 0xff, 0xff, 0xff, 0xff}}, {queue.Put, objecttest.Raw{0x90, 0}}, {99, nil}} {
		require.Equal(t, byte(object.Unknown), u.Reply(u.Ask(b.id, m.op, m.q)).Code, "operation %d with %v", m.op, m.q)
	}
	u.Tell(b.id, queue.Taken, nil)
	u.Tell(b.id, queue.Get, 1) // which wants no answer
	u.puts("a")
	require.Equal(t, 1, u.len())
}

// As many items as fit a message go together.
func TestDeliveryFitsAMessage(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	for range 4 {
		require.Zero(t, u.Reply(u.Ask(b.id, queue.Put, []object.Value{{First: make([]byte, 400<<10)}})).Code)
	}
	_, items := u.gets(4)
	require.Len(t, items, 2*400<<10)
	require.Equal(t, 2, u.len())
}

// An item holds the objects that it names for as long as it is in the queue.
func TestItemsHoldWhatTheyName(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	for _, name := range []string{"taken", "dropped"} {
		ref, err := b.h.Make(queue.New(b.h, 0), false)
		require.NoError(t, err)
		require.Zero(t, u.Reply(u.Ask(b.id, queue.Put, []object.Value{object.Encoded([][]byte{{'a'}}, ref)})).Code)
		require.Len(t, b.h.Holders(ref.Object), 1, name)
		delivery, _ := u.gets(1)
		require.Len(t, b.h.Holders(ref.Object), 1, "it is only handed out")
		u.settle(queue.Back, delivery)
		delivery, _ = u.gets(1)
		if name == "dropped" {
			b.h.Remove(b.id)
		} else {
			u.settle(queue.Taken, delivery)
			u.Settled()
		}
		require.Empty(t, b.h.Holders(ref.Object), name)
	}
}

func (u user) done(n int) (code byte) {
	u.b.t.Helper()
	return u.Reply(u.Ask(u.b.id, queue.Done, n)).Code
}

// Items whose receiver ends before they are done are written off, however it
// ends.
func TestJoinWhenAConsumerEnds(t *testing.T) {
	for name, end := range map[string]func(user){
		"dies":     func(u user) { u.Die() },
		"ends":     func(u user) { u.Bye() },
		"releases": func(u user) { u.Release(u.b.id) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 0)
			u, other := b.user(), b.user()
			other.puts("abcde")
			delivery, _ := u.gets(3)
			u.settle(queue.Taken, delivery)
			require.Zero(t, u.done(1))
			u.gets(1) // which comes back
			join := other.Ask(b.id, queue.Join, nil)
			other.Settled()
			end(u)
			rest := b.user()
			rest.eventually(2)
			delivery, items := rest.gets(2)
			require.Equal(t, "de", items)
			rest.settle(queue.Taken, delivery)
			require.Zero(t, rest.done(2))
			var lost int
			other.Reply(join).Read(t, &lost)
			require.Equal(t, 2, lost)
			other.Reply(other.Ask(b.id, queue.Join, nil)).Read(t, &lost)
			require.Zero(t, lost, "it is said once")
		})
	}
}

// What is in the queue can't be done yet.
func TestDoneBeforeGet(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	u.puts("abc")
	require.Equal(t, byte(queue.TooOften), u.done(1))
	delivery, _ := u.gets(2)
	u.settle(queue.Taken, delivery)
	require.Equal(t, byte(queue.TooOften), u.done(3))
	require.Equal(t, byte(object.Unknown), u.done(-1))
	require.Zero(t, other.done(1), "another process may finish what one got")
	require.Zero(t, u.done(1))
	require.Equal(t, byte(queue.TooOften), u.done(1))
	require.Equal(t, byte(queue.TooOften), other.done(1))
	// The receiver's end writes off nothing that another has done.
	delivery, _ = u.gets(1)
	u.settle(queue.Taken, delivery)
	u.Settled()
	require.Zero(t, other.done(1))
	other.puts("d")
	join := other.Ask(b.id, queue.Join, nil)
	other.Settled()
	u.Release(b.id)
	u.Settled()
	require.Equal(t, 1, other.len())
	third := b.user()
	delivery, _ = third.gets(1)
	third.settle(queue.Taken, delivery)
	third.Settled()
	other.Ask(b.id, queue.Done, 1)
	var lost int
	other.Reply(join).Read(t, &lost)
	require.Zero(t, lost)
}

// An item may be done elsewhere before the home has heard that it was taken. If
// it comes back instead, it is not done.
func TestDoneBeforeTaken(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	u.puts("ab")
	first, _ := u.gets(1)
	second, _ := u.gets(1)
	require.Zero(t, other.done(2))
	require.Equal(t, byte(queue.TooOften), other.done(1))
	join := other.Ask(b.id, queue.Join, nil)
	var lost int
	other.Reply(join).Read(t, &lost)
	require.Zero(t, lost)
	u.settle(queue.Back, second)
	u.settle(queue.Taken, first)
	u.Settled()
	join = other.Ask(b.id, queue.Join, nil)
	other.Settled()
	second, _ = u.gets(1)
	u.settle(queue.Taken, second)
	require.Zero(t, u.done(1))
	require.Zero(t, other.Reply(join).Code)
}

// What comes back costs as much in a long queue as in a short one.
func TestBackInALongQueue(t *testing.T) {
	b := newBed(t, 0)
	short := b.user()
	ref, err := b.h.Make(queue.New(b.h, 0), true)
	require.NoError(t, err)
	long := (&bed{t, b.run, b.h, ref.Object}).user()
	short.puts("ab")
	for range 100 {
		long.puts(strings.Repeat("x", 1000))
	}
	there := func(u user) time.Duration {
		start := time.Now()
		delivery, _ := u.gets(1)
		u.settle(queue.Back, delivery)
		u.Settled()
		return time.Since(start)
	}
	var took [2][]time.Duration
	for range 101 {
		took[0], took[1] = append(took[0], there(short)), append(took[1], there(long))
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	require.Less(t, took[1][50], 10*took[0][50])
}

// Requests that end while thousands wait cost no more than others.
func TestThousandsGiveUp(t *testing.T) {
	b := newBed(t, 1)
	u, other := b.user(), b.user()
	u.puts("a")
	const n = 500
	var puts, gets []uint64
	for range n {
		puts = append(puts, u.put("b"))
	}
	u.Settled()
	for _, id := range puts[1:] {
		u.GiveUp(id)
		require.Equal(t, byte(object.GivenUp), u.Reply(id).Code)
	}
	_, items := other.gets(10)
	require.Equal(t, "a", items)
	require.Zero(t, u.Reply(puts[0]).Code)
	_, items = other.gets(10)
	require.Equal(t, "b", items)
	for range n {
		gets = append(gets, other.get(1))
	}
	other.Settled()
	for _, id := range gets[:n-1] {
		other.GiveUp(id)
		require.Equal(t, byte(object.GivenUp), other.Reply(id).Code)
	}
	u.puts("c")
	_, items = other.got(gets[n-1])
	require.Equal(t, "c", items)
}

// gate is an object whose request is served for as long as the test likes:
// meanwhile the home reads nothing more from who asked.
type gate struct {
	object.Object
	entered, left chan struct{}
}

func (g *gate) Serve(r *object.Request) {
	close(g.entered)
	<-g.left
	object.Asked[object.None]{Request: r}.Reply(object.None{})
}

func (g *gate) Drop() {}

// shut stops the home's reading from u until pass is called, which also waits
// until all has been read.
func (u user) shut() (pass func()) {
	u.b.t.Helper()
	g := &gate{entered: make(chan struct{}), left: make(chan struct{})}
	ref, err := u.b.h.Make(g, true)
	require.NoError(u.b.t, err)
	id := u.Ask(ref.Object, 0, nil)
	<-g.entered
	return func() {
		u.b.t.Helper()
		close(g.left)
		require.Zero(u.b.t, u.Reply(id).Code)
	}
}

// A home that has fallen behind serves nobody who has left meanwhile, however
// much has come.
func TestGivenUpBeforeItWasServed(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	other.puts("a")
	pass := u.shut()
	var ids []uint64
	for range 50 {
		ids = append(ids, u.get(1), u.put(strings.Repeat("b", 50)))
	}
	last := u.put("c")
	for _, id := range ids {
		u.GiveUp(id)
	}
	pass()
	for _, id := range ids {
		require.Equal(t, byte(object.GivenUp), u.Reply(id).Code)
	}
	require.Zero(t, u.Reply(last).Code)
	_, items := u.gets(100)
	require.Equal(t, "ac", items)
	other.puts("d")
	_, items = other.gets(1)
	require.Equal(t, "d", items)
}

// Nothing is handed to a request whose deadline is over, whether it waits in the
// queue or has not been read yet, and its items are not put.
func TestOverdueRequests(t *testing.T) {
	b := newBed(t, 1)
	u, other := b.user(), b.user()
	get := u.Overdue(b.id, queue.Get, 1)
	other.puts("a")
	require.Equal(t, 1, other.len())
	put := u.Overdue(b.id, queue.Put, []object.Value{{First: []byte{'b'}}})
	_, items := other.gets(1)
	require.Equal(t, "a", items)
	require.Zero(t, other.len())
	for _, id := range []uint64{get, put} {
		u.GiveUp(id)
		require.Equal(t, byte(object.GivenUp), u.Reply(id).Code)
	}
	u.Left = time.Hour
	u.puts("c")
	_, items = u.gets(1)
	require.Equal(t, "c", items)
}

// Whoever comes after the end of a queue that nobody has closed hears that the queue is gone.
func TestPutAfterTheEnd(t *testing.T) {
	t.Parallel()
	run := objecttest.NewRun(t)
	h := run.Home("Home")
	q := queue.New(h, 0)
	ref, err := h.Make(q, true)
	require.NoError(t, err)
	u := (&bed{t, run, h, ref.Object}).user()
	q.Drop()
	require.Equal(t, byte(object.Gone), u.Reply(u.put("a")).Code)
	require.Equal(t, byte(object.Gone), u.Reply(u.get(1)).Code)
}

// A Put that ends with a part of its items in the queue says how many.
func TestPutOfAPart(t *testing.T) {
	for name, end := range map[string]struct {
		code byte
		put  func(u user, id uint64)
	}{
		"given up": {queue.Partly, func(u user, id uint64) { u.GiveUp(id) }},
		"closed":   {queue.Closed, func(u user, _ uint64) { u.Tell(u.b.id, queue.Close, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 3)
			u, other := b.user(), b.user()
			part := u.put("abcde")
			u.Settled()
			none := other.put("fg")
			other.Settled()
			end.put(u, part)
			said := u.Reply(part)
			require.Equal(t, end.code, said.Code)
			require.Equal(t, "3", string(said.Says[0]))
			if end.code == queue.Partly {
				other.GiveUp(none)
				require.Equal(t, byte(object.GivenUp), other.Reply(none).Code)
			} else {
				require.Equal(t, "0", string(other.Reply(none).Says[0]))
			}
			_, items := u.gets(10)
			require.Equal(t, "abc", items)
		})
	}
	t.Run("overdue", func(t *testing.T) {
		b := newBed(t, 3)
		u := b.user()
		part := u.Overdue(b.id, queue.Put, []object.Value{{First: []byte{'a'}}, {First: []byte{'b'}}, {First: []byte{'c'}}, {First: []byte{'d'}}})
		_, items := u.gets(10)
		require.Equal(t, "abc", items)
		said := u.Reply(part)
		require.Equal(t, byte(queue.Partly), said.Code)
		require.Equal(t, "3", string(said.Says[0]))
	})
}

// What a Get was handed that was given up meanwhile is in front again before that process's next Get.
func TestDeliveryThatCameTooLate(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	u.puts("abc")
	late := u.get(2)
	_, items := u.got(late)
	require.Equal(t, "ab", items)
	u.GiveUp(late)
	next, items := u.gets(1)
	require.Equal(t, "a", items)
	u.settle(queue.Taken, next)
	u.GiveUp(late) // a second time
	_, items = u.gets(5)
	require.Equal(t, "bc", items)
}

// A Get may be answered while its end is on the way, or is being handled: the item is not lost in any order.
func TestDeliveryWhileItIsGivenUp(t *testing.T) {
	b := newBed(t, 0)
	u, other := b.user(), b.user()
	for range 3000 {
		id := u.get(1)
		put := other.put("x")
		u.GiveUp(id)
		require.Zero(t, other.Reply(put).Code)
		u.Reply(id) // an item, or a refusal
		u.Settled()
		require.Equal(t, 1, u.len())
		next, _ := u.gets(1)
		u.settle(queue.Taken, next)
	}
}

// Of many items that came back together, each is handed out at its own cost, not at that of all.
func TestManyItemsThatCameBack(t *testing.T) {
	b := newBed(t, 0)
	u := b.user()
	const many = 20_000
	u.puts(strings.Repeat("x", many))
	all, _ := u.gets(many)
	u.settle(queue.Back, all)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range many {
		one, _ := u.gets(1)
		u.settle(queue.Taken, one)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(many*many*8), "bytes: each copied all")
	require.Zero(t, u.len())
}
