// Package queue implements queues at their home: the items in the order of their
// Put, the requests that wait, and the deliveries that are not acknowledged.
//
// A delivered item belongs to the queue until its receiver has acknowledged it.
// Until then it goes back to the front when the receiver dies or returns it.
package queue

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/object"
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
	Join  object.Op[object.None, int]            = iota // wait until all items are done; how many never will be, because their receivers died
)

// Delivery is items that were handed out, with a number for Taken and Back.
type Delivery struct {
	_     struct{} `msgpack:",as_array"`
	ID    uint64
	Items []object.Value
}

// The codes of refusals.
const (
	Closed   = object.OwnCodes + iota // the queue was closed, and nothing is left in it
	TooOften                          // more items were done than were put
)

var table = object.Ops(
	object.Awaited(Put, (*Queue).put),
	object.On(Get, func(q *Queue, r object.Asked[Delivery], limit int) {
		if limit < 1 {
			r.Malformed()
			return
		}
		q.getters = append(q.getters, getter{r, limit})
		q.move()
	}),
	object.On(Taken, func(q *Queue, r object.Asked[object.None], id uint64) { q.settle(r.Peer, id, true) }),
	object.On(Back, func(q *Queue, r object.Asked[object.None], id uint64) { q.settle(r.Peer, id, false) }),
	object.On(Len, func(q *Queue, r object.Asked[int], _ object.None) { r.Reply(len(q.items)) }),
	object.On(Close, func(q *Queue, r object.Asked[object.None], _ object.None) {
		q.close(Closed)
		q.move()
		r.Reply(object.None{})
	}),
	object.On(Done, func(q *Queue, r object.Asked[object.None], n int) {
		if n > q.undone {
			r.Fail(TooOften, "")
			return
		}
		q.undone -= n
		q.owed[r.Peer] = max(0, q.owed[r.Peer]-n)
		q.answerJoiners()
		r.Reply(object.None{})
	}),
	object.On(Join, func(q *Queue, r object.Asked[int], _ object.None) {
		q.joiners = append(q.joiners, r)
		q.answerJoiners()
	}),
)

// Queue is an object.Object.
type Queue struct {
	home     *object.Server
	capacity int // 0: unbounded

	mu      sync.Mutex
	closed  bool
	items   []object.Value
	getters []getter
	putters []putter
	joiners []object.Asked[int]
	undone  int                     // items put and not done
	owed    map[*object.Session]int // how many of them each process has received
	lost    int                     // owed by processes that died, since the last Join was answered
	last    uint64
	out     map[uint64]delivery
}

// getter waits for at most max items, putter for room for its items.
type getter struct {
	r   object.Asked[Delivery]
	max int
}

type putter struct {
	r     object.Asked[object.None]
	items []object.Value // that are not in the queue yet
}

// delivery is a Delivery that is not acknowledged, and its receiver.
type delivery struct {
	to    *object.Session
	items []object.Value
}

// New makes a queue with room for capacity items, 0 for any number.
func New(s *object.Server, capacity int) *Queue {
	return &Queue{home: s, capacity: capacity, owed: map[*object.Session]int{}, out: map[uint64]delivery{}}
}

// Serve takes a request.
func (q *Queue) Serve(r *object.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	table.Serve(q, r)
}

func (q *Queue) put(r object.Asked[object.None], items []object.Value) {
	if q.closed {
		r.Fail(Closed, "")
		return
	}
	q.home.HoldRefs(items...)
	q.putters = append(q.putters, putter{r: r, items: items})
	q.move()
}

// move admits items while there is room, and delivers items while requests wait
// for them. The lock is held.
func (q *Queue) move() {
	for q.admit() || q.deliver() {
	}
	if q.closed && len(q.items) == 0 && len(q.out) == 0 {
		for _, g := range q.getters {
			g.r.Fail(Closed, "")
		}
		q.getters = nil
	}
}

func (q *Queue) admit() (moved bool) {
	for len(q.putters) > 0 {
		p := &q.putters[0]
		n := len(p.items)
		if q.capacity > 0 {
			n = min(n, q.capacity-len(q.items))
		}
		if n > 0 {
			q.items = append(q.items, p.items[:n]...)
			p.items = p.items[n:]
			q.undone += n
			moved = true
		}
		if len(p.items) > 0 {
			return moved
		}
		p.r.Reply(object.None{})
		q.putters = slices.Delete(q.putters, 0, 1)
	}
	return moved
}

func (q *Queue) deliver() (moved bool) {
	for len(q.getters) > 0 && len(q.items) > 0 {
		g := q.getters[0]
		q.getters = slices.Delete(q.getters, 0, 1)
		if !g.r.Wanted() {
			continue
		}
		items := object.Shift(&q.items, q.home.Fitting(q.items[:min(g.max, len(q.items))]))
		q.last++
		q.out[q.last] = delivery{g.r.Peer, items}
		g.r.Reply(Delivery{ID: q.last, Items: items})
		moved = true
	}
	return moved
}

// settle ends a delivery: taken by its receiver, or given back. The lock is held.
func (q *Queue) settle(by *object.Session, id uint64, taken bool) {
	d, ok := q.out[id]
	if !ok || d.to != by {
		return
	}
	delete(q.out, id)
	if taken {
		q.owed[d.to] += len(d.items)
		q.home.ReleaseRefs(d.items...)
	} else {
		q.items = slices.Concat(d.items, q.items)
	}
	q.move()
}

// GiveUp removes a waiting request.
func (q *Queue) GiveUp(r *object.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.getters = slices.DeleteFunc(q.getters, func(g getter) bool { return g.r.Request == r })
	q.joiners = slices.DeleteFunc(q.joiners, func(j object.Asked[int]) bool { return j.Request == r })
	for i, p := range q.putters {
		if p.r.Request == r {
			q.home.ReleaseRefs(p.items...)
			q.putters = slices.Delete(q.putters, i, i+1)
			q.move()
			break
		}
	}
	r.Fail(object.GivenUp, "")
}

// Left puts back the items that a process was handed and has not acknowledged.
// If the process died, the items that it received and did not finish count as
// lost.
func (q *Queue) Left(p *object.Session, died bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	owed := min(q.owed[p], q.undone)
	delete(q.owed, p)
	if died && owed > 0 {
		q.undone -= owed
		q.lost += owed
		q.answerJoiners()
	}
	var lost []uint64
	for id, d := range q.out {
		if d.to == p {
			lost = append(lost, id)
		}
	}
	slices.Sort(lost)
	for _, id := range slices.Backward(lost) { // the oldest ends up at the front
		q.items = slices.Concat(q.out[id].items, q.items)
		delete(q.out, id)
	}
	q.move()
}

// Drop ends the queue and discards its items.
func (q *Queue) Drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	code := byte(object.Gone)
	if q.closed {
		code = Closed
	}
	q.close(code)
	for _, g := range q.getters {
		g.r.Fail(code, "")
	}
	for _, j := range q.joiners {
		j.Fail(code, "")
	}
	for _, d := range q.out {
		q.home.ReleaseRefs(d.items...)
	}
	q.home.ReleaseRefs(q.items...)
	q.getters, q.joiners, q.items, q.out = nil, nil, nil, map[uint64]delivery{}
}

// close closes the queue for new items, and refuses waiting Puts with code. Items
// in the queue are still handed out. The lock is held.
func (q *Queue) close(code byte) {
	q.closed = true
	for _, p := range q.putters {
		q.home.ReleaseRefs(p.items...)
		p.r.Fail(code, "")
	}
	q.putters = nil
}

// answerJoiners answers all waiting Joins if all items are done. The lock is
// held.
func (q *Queue) answerJoiners() {
	if q.undone > 0 || len(q.joiners) == 0 {
		return
	}
	for _, j := range q.joiners {
		j.Reply(q.lost)
	}
	q.joiners, q.lost = nil, 0
}
