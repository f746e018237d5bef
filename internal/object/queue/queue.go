// Package queue is the home's side of queues: items in the order in which they
// were put, who waits for them, and who was handed which.
//
// An item that was handed out belongs to the queue until its receiver has said
// that it has it. Until then it goes back to the front when the receiver dies
// or does not want it any more.
package queue

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations.
const (
	Put   object.Op[[]object.Value, object.None] = iota // the answer comes when all of them are in
	Get   object.Op[int, Delivery]               = iota // at most so many items
	Taken object.Op[uint64, object.None]         = iota // a delivery has arrived
	Back  object.Op[uint64, object.None]         = iota // a delivery is not wanted
	Len   object.Op[object.None, int]            = iota // how many items are in it
	Close object.Op[object.None, object.None]    = iota // nobody puts or gets any more
	Done  object.Op[int, object.None]            = iota // so many items are dealt with
	Join  object.Op[object.None, int]            = iota // wait until all items are dealt with; how many never will be, since who got them died
)

// Delivery is items that are handed out, with a number for Taken and Back.
type Delivery struct {
	ID    uint64
	Items []object.Value
}

// The codes of refusals.
const (
	Closed   = object.OwnCodes + iota // the queue was closed, and nothing is left in it
	TooOften                          // more items were dealt with than were put
)

var table = object.Ops(
	object.On(Put, (*Queue).put),
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
	object.On(Len, func(q *Queue, r object.Asked[int], _ object.None) { r.Reply(q.items.Len()) }),
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

// Queue is a home.Object.
type Queue struct {
	home     *object.Server
	capacity int // 0: none

	mu      sync.Mutex
	closed  bool
	items   object.Deque
	getters []getter
	putters []putter
	joiners []object.Asked[int]
	undone  int                     // items put and not dealt with
	owed    map[*object.Session]int // of these, what processes have got
	lost    int                     // owed by processes that died, since somebody joined
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
	items []object.Value
	done  int // how many of them are in
}

// delivery is items that were handed out and not acknowledged.
type delivery struct {
	to    *object.Session
	items []object.Value
}

// New makes a queue, with room for so many items, 0 for any number.
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
	for _, v := range items {
		q.home.HoldRefs(v)
	}
	q.putters = append(q.putters, putter{r: r, items: items})
	q.move()
}

// move takes in what there is room for, and hands out what somebody waits
// for, as far as both go. The lock is held.
func (q *Queue) move() {
	for {
		moved := q.admit()
		if q.deliver() || moved {
			continue
		}
		break
	}
	if q.closed && q.items.Len() == 0 && len(q.out) == 0 {
		for _, g := range q.getters {
			g.r.Fail(Closed, "")
		}
		q.getters = nil
	}
}

func (q *Queue) admit() (moved bool) {
	for len(q.putters) > 0 {
		p := &q.putters[0]
		n := len(p.items) - p.done
		if q.capacity > 0 {
			n = min(n, q.capacity-q.items.Len())
		}
		if n > 0 {
			q.items.Push(p.items[p.done : p.done+n]...)
			q.undone += n
			p.done += n
			moved = true
		}
		if p.done < len(p.items) {
			return moved
		}
		p.r.Reply(object.None{})
		q.putters = slices.Delete(q.putters, 0, 1)
	}
	return moved
}

func (q *Queue) deliver() (moved bool) {
	for len(q.getters) > 0 && q.items.Len() > 0 {
		g := q.getters[0]
		q.getters = slices.Delete(q.getters, 0, 1)
		if !g.r.Wanted() {
			continue
		}
		items := q.items.Front(g.max)
		items = slices.Clone(items[:q.home.Fitting(items)])
		q.items.Drop(len(items))
		q.last++
		q.out[q.last] = delivery{g.r.Peer, items}
		g.r.Reply(Delivery{q.last, items})
		moved = true
	}
	return moved
}

// settle ends a delivery, as its receiver says. The lock is held.
func (q *Queue) settle(by *object.Session, id uint64, taken bool) {
	d, ok := q.out[id]
	if !ok || d.to != by {
		return
	}
	delete(q.out, id)
	if taken {
		q.owed[d.to] += len(d.items)
		q.release(d.items)
	} else {
		q.items.Unshift(d.items)
	}
	q.move()
}

// release lets go of the objects in items. The lock is held.
func (q *Queue) release(items []object.Value) {
	for _, v := range items {
		q.home.ReleaseRefs(v)
	}
}

// GiveUp takes a waiting request out.
func (q *Queue) GiveUp(r *object.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.getters = slices.DeleteFunc(q.getters, func(g getter) bool { return g.r.Request == r })
	q.joiners = slices.DeleteFunc(q.joiners, func(j object.Asked[int]) bool { return j.Request == r })
	for i, p := range q.putters {
		if p.r.Request == r {
			q.release(p.items[p.done:])
			q.putters = slices.Delete(q.putters, i, i+1)
			if p.done > 0 {
				q.move()
			}
			break
		}
	}
	r.Fail(object.GivenUp, "")
}

// Left takes back what a process was handed and has not acknowledged. What it
// has got and not dealt with, nobody ever will, if it died.
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
	for _, id := range slices.Backward(lost) { // so that the oldest comes to the front
		q.items.Unshift(q.out[id].items)
		delete(q.out, id)
	}
	q.move()
}

// Drop ends the queue with all that is in it.
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
		q.release(d.items)
	}
	q.release(q.items.Front(q.items.Len()))
	q.getters, q.joiners, q.items, q.out = nil, nil, object.Deque{}, map[uint64]delivery{}
	q.move()
}

// close lets nothing in any more, and says why. What is in the queue is still
// handed out. The lock is held.
func (q *Queue) close(code byte) {
	q.closed = true
	for _, p := range q.putters {
		q.release(p.items[p.done:])
		p.r.Fail(code, "")
	}
	q.putters = nil
}

// answerJoiners lets go of those who wait for all items to be dealt with, if
// they are. The lock is held.
func (q *Queue) answerJoiners() {
	if q.undone > 0 || len(q.joiners) == 0 {
		return
	}
	for _, j := range q.joiners {
		j.Reply(q.lost)
	}
	q.joiners, q.lost = nil, 0
}
