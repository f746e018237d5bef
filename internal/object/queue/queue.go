// Package queue implements queues at their home: the items in the order of their
// Put, the requests that wait, and the deliveries that are not acknowledged.
//
// A delivered item belongs to the queue until its receiver has acknowledged it.
// Until then it goes back to the front when the receiver dies or returns it.
package queue

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations.
const (
	Put   object.Op[[]object.Value, object.None] = iota // answered when all of the items are in the queue
	Get   object.Op[int, Delivery]               = iota // at most so many items
	Taken object.Op[uint64, object.None]         = iota // a delivery has arrived
	Back  object.Op[uint64, object.None]         = iota // a delivery is not wanted
	Len   object.Op[object.None, int]            = iota // how many items are in the queue
	Close object.Op[object.None, object.None]    = iota // no more items are put; those in the queue are still handed out
	Done  object.Op[int, object.None]            = iota // so many items are done
	Join  object.Op[object.None, int]            = iota // wait until all items are done; how many never will be, because their receivers ended

	TryPut object.Op[object.Value, bool]    = iota // whether there was room for an item
	TryGet object.Op[object.None, Delivery] = iota // an item, or none if there is none now
)

// Delivery is items that were handed out, with the number of their request for Taken and Back.
type Delivery struct {
	ID    uint64
	Items object.Values
}

// Append appends the packed delivery to b and frames.
func (d *Delivery) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	return d.Items.Append(wire.AppendUvarint(b, d.ID), frames)
}

// Read takes a packed delivery.
func (d *Delivery) Read(in *wire.Reader) {
	d.ID = in.Uvarint()
	in.Shares = true // a consumer decodes all items at once
	d.Items.Read(in)
}

// The codes of refusals.
const (
	Closed   = object.OwnCodes + iota // the queue was closed, and nothing is left in it
	TooOften                          // more items were done than were received
	Partly                            // a Put was given up after some of its items had come into the queue
)

// Put's refusals with the codes Closed and Partly say how many items are in the
// queue.

// PutBefore returns how many items of a refused Put are in the queue all the same.
func PutBefore(r *object.Refusal) int {
	n, _ := strconv.Atoi(r.Text)
	return max(0, n)
}

var table = object.Ops(
	object.Awaited(Put, (*Queue).put),
	object.On(Get, func(q *Queue, r object.Asked[Delivery], limit int) {
		if limit < 1 {
			r.Malformed()
			return
		}
		q.getters.push(getter{r, limit})
		q.move()
	}),
	object.On(TryPut, func(q *Queue, r object.Asked[bool], item object.Value) {
		switch {
		case q.closed != 0:
			r.Fail(q.closed, "")
		case q.capacity > 0 && (q.len() >= q.capacity || q.putters.len() > 0):
			r.Reply(false)
		default:
			q.home.HoldRefs(item)
			q.items.push(item)
			r.Reply(true)
			q.move()
		}
	}),
	object.On(TryGet, func(q *Queue, r object.Asked[Delivery], _ object.None) {
		switch {
		case q.len() > 0: // then no getter waits
			q.getters.push(getter{r, 1})
			q.move()
		case q.closed != 0 && q.out == 0:
			r.Fail(q.closed, "")
		default:
			r.Reply(Delivery{})
		}
	}),
	object.On(Taken, func(q *Queue, r object.Asked[object.None], id uint64) { q.settle(r.Peer, id, true) }),
	object.On(Back, func(q *Queue, r object.Asked[object.None], id uint64) { q.settle(r.Peer, id, false) }),
	object.On(Len, func(q *Queue, r object.Asked[int], _ object.None) { r.Reply(q.len()) }),
	object.On(Close, func(q *Queue, r object.Asked[object.None], _ object.None) {
		q.close(Closed)
		q.move()
		r.Reply(object.None{})
	}),
	object.On(Done, func(q *Queue, r object.Asked[object.None], n int) {
		switch {
		case n < 1:
			r.Malformed()
		case n > q.owed+q.out-q.early:
			r.Fail(TooOften, "")
		default:
			q.done(r.Peer, n)
			q.answerJoiners()
			r.Reply(object.None{})
		}
	}),
	object.On(Join, func(q *Queue, r object.Asked[int], _ object.None) {
		q.joiners.push(r)
		q.answerJoiners()
	}),
)

// Queue is an object.Object.
//
// A request that is not wanted any more stays in its line until it is at the
// front, or until half of those that wait are like it: its end costs O(1).
type Queue struct {
	home     *object.Server
	capacity int // 0: unbounded

	mu        sync.Mutex
	closed    byte // the code that refuses Puts, and Gets once the queue is empty; 0 while it is open
	dropped   bool // all requests are refused
	items     line[object.Value]
	taken     uint64     // how many items were ever taken from items
	back      line[span] // what was given back: it is in front of items, in the order in which it was taken from them
	mixed     bool       // back has to be sorted
	returned  int        // the items in back
	getters   line[getter]
	putters   line[putter]
	joiners   line[object.Asked[int]]
	unwanted  int // requests that were given up since the lines were last swept
	consumers map[*object.Session]*consumer
	out       int // items that were handed out and are not acknowledged
	owed      int // items that were taken and are not done
	early     int // of those out, how many are done: who got one may have passed it on before its Taken is here
	lost      int // owed by processes that ended, since the last Join was answered
}

// getter waits for at most max items, putter for room for its items.
type getter struct {
	r   object.Asked[Delivery]
	max int
}

type putter struct {
	r     object.Asked[object.None]
	items []object.Value // that are not in the queue yet
	in    int            // how many are; only the first putter in line can have some
}

// fail refuses a Put, and says how many of its items are in the queue.
func (p putter) fail(code byte) { p.r.Fail(code, strconv.Itoa(p.in)) }

// forget drops a Put that was given up. The lock is held.
func (q *Queue) forget(p putter) {
	if p.in > 0 {
		p.fail(Partly)
	}
	q.home.ReleaseRefs(p.items...)
}

// consumer is what a process was handed.
type consumer struct {
	out  map[uint64]delivery // by the numbers of their requests: what is not acknowledged
	owed int                 // items that it took and that are not done
}

// delivery is what was handed out together.
type delivery []span

// span is items that have followed one another in the queue: the first of them was the one with the number from.
type span struct {
	from  uint64
	items []object.Value
}

// New makes a queue with room for capacity items, 0 for any number.
func New(s *object.Server, capacity int) *Queue {
	return &Queue{home: s, capacity: capacity, consumers: map[*object.Session]*consumer{}}
}

// Describe says what is in the queue.
func (q *Queue) Describe(o *event.Object) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o.Kind, o.Length, o.Waiting = "queue", q.items.len()+q.returned, q.getters.len()+q.putters.len()
}

// Serve takes a request.
func (q *Queue) Serve(r *object.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped { // since the server has found it
		r.Fail(object.Gone, "")
		return
	}
	table.Serve(q, r)
}

func (q *Queue) put(r object.Asked[object.None], items []object.Value) {
	if q.closed != 0 {
		r.Fail(q.closed, "")
		return
	}
	q.home.HoldRefs(items...)
	p := putter{r: r, items: items}
	if q.putters.len() > 0 || !q.admit(&p) {
		q.putters.push(p)
	}
	q.move()
}

// move admits items while there is room, and delivers items while requests wait
// for them. The lock is held.
func (q *Queue) move() {
	for q.admitWaiting() || q.deliver() {
	}
	if q.closed != 0 && q.len() == 0 && q.out == 0 {
		for _, g := range q.getters.all() {
			g.r.Fail(q.closed, "")
		}
		q.getters = line[getter]{}
	}
}

// admit puts the items of p into the queue, as far as there is room, and answers
// p when all are there.
func (q *Queue) admit(p *putter) (all bool) {
	n := len(p.items)
	if q.capacity > 0 {
		n = max(0, min(n, q.capacity-q.len()))
	}
	q.items.adopt(p.items[:n:n])
	p.items, p.in = p.items[n:], p.in+n
	if len(p.items) > 0 {
		return false
	}
	p.r.Reply(object.None{})
	return true
}

func (q *Queue) admitWaiting() (moved bool) {
	for q.putters.len() > 0 && (q.capacity == 0 || q.len() < q.capacity) {
		p := &q.putters.all()[0]
		if !p.r.Wanted() {
			q.forget(*p)
		} else if moved = true; !q.admit(p) {
			break
		}
		q.putters.shift(1)
	}
	return moved
}

func (q *Queue) deliver() (moved bool) {
	for q.getters.len() > 0 && q.len() > 0 {
		g := q.getters.all()[0]
		q.getters.shift(1)
		if !g.r.Wanted() {
			continue
		}
		d, items := q.next(g.max)
		c := q.consumers[g.r.Peer]
		if c == nil {
			c = &consumer{out: map[uint64]delivery{}}
			q.consumers[g.r.Peer] = c
		}
		c.out[g.r.ID()] = d
		q.out += len(items)
		g.r.Reply(Delivery{ID: g.r.ID(), Items: items})
		moved = true
	}
	return moved
}

// next takes at most max items from the front, those that came back first.
func (q *Queue) next(max int) (d delivery, items []object.Value) {
	if q.mixed {
		slices.SortFunc(q.back.all(), func(a, b span) int { return cmp.Compare(a.from, b.from) })
		q.mixed = false
	}
	for _, s := range q.back.all() {
		if len(items) == max {
			break
		}
		items = append(items, s.items[:min(max-len(items), len(s.items))]...)
	}
	if len(items) == 0 {
		items = q.items.take(q.home.Fitting(q.items.all()[:min(max, q.items.len())]))
		q.taken += uint64(len(items))
		return delivery{{q.taken - uint64(len(items)), items}}, items
	}
	items = append(items, q.items.all()[:min(max-len(items), q.items.len())]...)
	items = items[:q.home.Fitting(items)]
	for n := len(items); n > 0; {
		if q.back.len() == 0 {
			d = append(d, span{q.taken, q.items.take(n)})
			q.taken += uint64(n)
			break
		}
		first := &q.back.all()[0]
		m := min(n, len(first.items))
		d = append(d, span{first.from, first.items[:m:m]})
		if first.from, first.items = first.from+uint64(m), first.items[m:]; len(first.items) == 0 {
			q.back.shift(1)
		}
		q.returned -= m
		n -= m
	}
	return d, items
}

// len returns the number of items in the queue.
func (q *Queue) len() int { return q.items.len() + q.returned }

// settle ends a delivery: taken by its receiver, or given back. The lock is held.
func (q *Queue) settle(by *object.Session, id uint64, taken bool) {
	c := q.consumers[by]
	if c == nil {
		return
	}
	d, ok := c.out[id]
	if !ok {
		return
	}
	delete(c.out, id)
	for _, s := range d {
		if !taken {
			q.restore(s)
			continue
		}
		q.out -= len(s.items)
		q.home.ReleaseRefs(s.items...)
		done := min(q.early, len(s.items))
		q.early -= done
		c.owed += len(s.items) - done
		q.owed += len(s.items) - done
	}
	q.move()
}

// restore puts items back, in front of what was behind them. The lock is held.
func (q *Queue) restore(s span) {
	if all := q.back.all(); len(all) > 0 && all[len(all)-1].from > s.from {
		q.mixed = true
	}
	q.back.push(s)
	q.returned += len(s.items)
	q.out -= len(s.items)
	q.early = min(q.early, q.out) // what is back is not done, whatever was said of it
}

// done notes that n items are done: of those that the process owes, else of
// those that another does, which may have passed them on. The lock is held.
func (q *Queue) done(by *object.Session, n int) {
	pay := func(c *consumer) {
		paid := min(n, c.owed)
		c.owed -= paid
		q.owed -= paid
		n -= paid
	}
	if c := q.consumers[by]; c != nil {
		pay(c)
	}
	for _, c := range q.consumers {
		if n == 0 {
			return
		}
		pay(c)
	}
	q.early += n
}

// TakeBack puts back the items that a request was answered after its process had given it up.
func (q *Queue) TakeBack(by *object.Session, request uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle(by, request, false)
}

// GiveUp removes a waiting request, or takes back what it has been answered just now.
func (q *Queue) GiveUp(r *object.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.putters.len() > 0 && q.putters.all()[0].r.Request == r {
		q.forget(q.putters.all()[0])
		q.putters.shift(1)
	}
	r.Fail(object.GivenUp, "")
	q.settle(r.Peer, r.ID(), false)
	if q.unwanted++; 2*q.unwanted > q.getters.len()+q.putters.len()+q.joiners.len() {
		q.unwanted = 0
		q.getters.remove(func(g getter) bool { return !g.r.Wanted() })
		q.joiners.remove(func(j object.Asked[int]) bool { return !j.Wanted() })
		q.putters.remove(func(p putter) bool {
			if p.r.Wanted() {
				return false
			}
			q.forget(p)
			return true
		})
	}
	q.move()
}

// Left puts back the items that a process was handed and has not acknowledged.
// Those that it took and did not finish are lost, whether it died or let go.
func (q *Queue) Left(p *object.Session, _ bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.consumers[p]
	if c == nil {
		return
	}
	delete(q.consumers, p)
	q.owed -= c.owed
	q.lost += c.owed
	for _, d := range c.out {
		for _, s := range d {
			q.restore(s)
		}
	}
	q.answerJoiners()
	q.move()
}

// Drop ends the queue and discards its items.
func (q *Queue) Drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped = true
	q.close(cmp.Or(q.closed, object.Gone))
	for _, g := range q.getters.all() {
		g.r.Fail(q.closed, "")
	}
	for _, j := range q.joiners.all() {
		j.Fail(q.closed, "")
	}
	for _, c := range q.consumers {
		for _, s := range slices.Concat(slices.Collect(maps.Values(c.out))...) {
			q.home.ReleaseRefs(s.items...)
		}
	}
	for _, s := range q.back.all() {
		q.home.ReleaseRefs(s.items...)
	}
	q.home.ReleaseRefs(q.items.all()...)
	q.getters, q.joiners, q.items, q.back = line[getter]{}, line[object.Asked[int]]{}, line[object.Value]{}, line[span]{}
	clear(q.consumers)
	q.returned = 0
	q.out, q.owed, q.early = 0, 0, 0
}

// close closes the queue for new items, and refuses waiting Puts with code. Items
// in the queue are still handed out. The lock is held.
func (q *Queue) close(code byte) {
	q.closed = code
	for _, p := range q.putters.all() {
		q.home.ReleaseRefs(p.items...)
		p.fail(code)
	}
	q.putters = line[putter]{}
}

// answerJoiners answers all waiting Joins if all items are done. The lock is
// held.
func (q *Queue) answerJoiners() {
	if q.len()+q.out+q.owed > q.early || q.joiners.len() == 0 {
		return
	}
	for _, j := range q.joiners.all() {
		j.Reply(q.lost)
	}
	q.joiners, q.lost = line[object.Asked[int]]{}, 0
}
