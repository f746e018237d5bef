package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

// load is an item with a number of its own. Some are large.
type load struct {
	ID   int64
	Fill []byte
}

const large = 4 << 20

// filling is what fills the large ones: one for all, so that the memory of this process is about the same at each look.
var filling = sync.OnceValue(func() []byte {
	fill := make([]byte, large)
	for i := range fill {
		fill[i] = byte(i >> 12)
	}
	return fill
})

func newLoad(id int64, r *rand.Rand) load {
	if r.IntN(200) == 0 {
		return load{id, filling()}
	}
	return load{ID: id}
}

// whole reports whether the load is as it was made.
func (l load) whole() bool { return len(l.Fill) == 0 || bytes.Equal(l.Fill, filling()) }

// ledger is what a process knows of the items of each place, which is a queue or a pipe.
type ledger map[string]page

type page struct{ Acked, Unknown, Never, Got []int64 }

// next returns a number for an item of this process, the one that who names.
func (w *watch) next() int64 {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.items++
	return w.who<<40 | w.items
}

// put records what became of an item that was to be put.
func (w *watch) put(place string, out outcome, ids ...int64) {
	w.lock.Lock()
	defer w.lock.Unlock()
	p := w.report.Ledger[place]
	switch out {
	case done:
		p.Acked = append(p.Acked, ids...)
	case never:
		p.Never = append(p.Never, ids...)
	default:
		p.Unknown = append(p.Unknown, ids...)
	}
	w.report.Ledger[place] = p
}

func (w *watch) page(place string) page {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.report.Ledger[place]
}

func (w *watch) got(place string, all ...load) {
	w.lock.Lock()
	defer w.lock.Unlock()
	p := w.report.Ledger[place]
	for _, l := range all {
		p.Got = append(p.Got, l.ID)
		if !l.whole() {
			w.fault("an item of %s is broken: %d, with %d bytes", place, l.ID, len(l.Fill))
		}
	}
	w.report.Ledger[place] = p
}

// add adds what another process knows.
func (a ledger) add(b ledger) {
	for place, p := range b {
		q := a[place]
		a[place] = page{append(q.Acked, p.Acked...), append(q.Unknown, p.Unknown...), append(q.Never, p.Never...), append(q.Got, p.Got...)}
	}
}

// missing returns what was acknowledged and has not come out.
func (p page) missing() (ids []int64) {
	out := map[int64]bool{}
	for _, id := range p.Got {
		out[id] = true
	}
	return slices.DeleteFunc(slices.Clone(p.Acked), func(id int64) bool { return out[id] })
}

// faults returns what is wrong with a place that has been emptied. If a process that knew of items was killed, they may be
// missing, and may have come out twice.
func (p page) faults(place string, killed bool) (faults []string) {
	times := map[int64]int{}
	for _, id := range p.Got {
		times[id]++
	}
	var denied, twice, strange []int64
	for _, id := range p.Never {
		if times[id] > 0 {
			denied = append(denied, id)
		}
	}
	known := map[int64]bool{}
	for _, id := range slices.Concat(p.Acked, p.Unknown, p.Never) {
		known[id] = true
	}
	for id, n := range times {
		if n > 1 {
			twice = append(twice, id)
		}
		if !known[id] {
			strange = append(strange, id)
		}
	}
	say := func(what string, ids []int64, of int) {
		if len(ids) > 0 {
			faults = append(faults, fmt.Sprintf("%s: %d of %d %s: %v", place, len(ids), of, what, ids[:min(5, len(ids))]))
		}
	}
	say("items came out although their Put or Send returned the context's error alone", denied, len(p.Never))
	if !killed {
		say("acknowledged items are lost", p.missing(), len(p.Acked))
		say("items came out twice", twice, len(p.Got))
		say("items came out that nobody put", strange, len(p.Got))
	}
	return faults
}

// A store is a queue of any kind.
type store interface {
	Put(ctx context.Context, l load) error
	PutMany(ctx context.Context, ls []load) error
	Get(ctx context.Context) (load, error)
	GetMany(ctx context.Context, most int) ([]load, error)
	Len(ctx context.Context) (int, error)
	Close() error
}

// fill puts an item, or a few.
func (w *watch) fill(ctx context.Context, place string, q store, r *rand.Rand) error {
	if r.IntN(8) > 0 {
		l := newLoad(w.next(), r)
		out, err := w.do(ctx, "Put, "+place, func(ctx context.Context) error { return q.Put(ctx, l) })
		w.put(place, out, l.ID)
		return fatal(out, err)
	}
	var ls []load
	var ids []int64
	for range 1 + r.IntN(20) {
		ls = append(ls, newLoad(w.next(), r))
		ids = append(ids, ls[len(ls)-1].ID)
	}
	out, err := w.do(ctx, "PutMany, "+place, func(ctx context.Context) error { return q.PutMany(ctx, ls) })
	if out == never { // the first few may be in the queue
		out = unknown
	}
	w.put(place, out, ids...)
	return fatal(out, err)
}

// drain gets an item, or a few.
func (w *watch) drain(ctx context.Context, place string, q store, r *rand.Rand) error {
	ls := make([]load, 1)
	kind, get := "Get, ", func(ctx context.Context) (err error) {
		ls[0], err = q.Get(ctx)
		return err
	}
	if r.IntN(4) == 0 {
		kind, get = "GetMany, ", func(ctx context.Context) (err error) {
			ls, err = q.GetMany(ctx, 1+r.IntN(30))
			return err
		}
	}
	out, err := w.do(ctx, kind+place, get)
	if out != done {
		return fatal(out, err)
	}
	w.got(place, ls...)
	if j, ok := q.(joinable); ok {
		return j.finish(ctx, w, len(ls))
	}
	return nil
}

// fatal returns an error that the context does not explain.
func fatal(out outcome, err error) error {
	if out == lost {
		return err
	}
	return nil
}

// storeHands put into a queue and get from it.
func (w *watch) storeHands(place string, q store) []hand {
	get := func(ctx context.Context, r *rand.Rand) error { return w.drain(ctx, place, q, r) }
	return []hand{
		hurried("a producer of "+place, func(ctx context.Context, r *rand.Rand) error {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
			return w.fill(ctx, place, q, r)
		}),
		hurried("a consumer of "+place, get),
		hurried("another consumer of "+place, get),
	}
}

// empty gets what is left in a queue, in a hurry at first, and closes it. It returns an error if the queue is lost, or
// does not hand out what it has.
func (s *soak) empty(ctx context.Context, w *watch, known page, place string, q store, name string, r *rand.Rand) error {
	ctx = context.WithValue(ctx, handKey{}, "who empties "+place)
	left := map[int64]bool{}
	for _, id := range known.missing() {
		left[id] = true
	}
	seen := len(w.page(place).Got)
	begun := time.Now()
	for many := len(left); len(left) > 0 && ctx.Err() == nil; {
		once, cancel := soon(ctx, r)
		err := w.drain(once, place, q, r)
		cancel()
		if err != nil {
			return err
		}
		got := w.page(place).Got
		for _, id := range got[seen:] {
			delete(left, id)
		}
		if len(got) > seen {
			s.did(name, len(got)-seen)
			seen = len(got)
		}
		if time.Since(begun) > s.patience/2 {
			n, err := q.Len(ctx)
			w.wrong("%s: after %v of Gets in a hurry %d of %d acknowledged items have not come out; its length is %d, %v", place, s.patience/2, len(left), many, n, err)
			break
		}
	}
	if err := q.Close(); err != nil && !errors.Is(err, fiber.ErrUnknownOutcome) { // it is closed when its home goes on
		return err
	}
	for {
		ls, err := q.GetMany(ctx, 100)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, fiber.ErrClosed) {
				return err
			}
			return nil
		}
		w.got(place, ls...)
		s.did(name, len(ls))
		if j, ok := q.(joinable); ok {
			if err := j.finish(ctx, w, len(ls)); err != nil {
				return err
			}
		}
	}
}

// A duct is an end of a pipe.
type duct interface {
	Send(ctx context.Context, l load) error
	Recv(ctx context.Context) (load, error)
}

// pipeHands send to a pipe's other end and receive from it. Each tells the other end when it sends no more.
func (w *watch) pipeHands(to, from string, c duct, last time.Time) []hand {
	var told, heard bool
	var before int64
	return []hand{
		{"the sender to " + to, true, func(ctx context.Context, r *rand.Rand) error {
			if time.Now().After(last) {
				if told {
					return errDone
				}
				out, err := w.do(ctx, "Send, "+to, func(ctx context.Context) error { return c.Send(ctx, load{}) })
				told = true
				return fatal(out, err)
			}
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
			ctx, cancel := soon(ctx, r)
			defer cancel()
			l := newLoad(w.next(), r)
			out, err := w.do(ctx, "Send, "+to, func(ctx context.Context) error { return c.Send(ctx, l) })
			w.put(to, out, l.ID)
			return fatal(out, err)
		}},
		{"the receiver from " + from, true, func(ctx context.Context, r *rand.Rand) error {
			if heard {
				return errDone
			}
			ctx, cancel := soon(ctx, r)
			defer cancel()
			var l load
			out, err := w.do(ctx, "Recv, "+from, func(ctx context.Context) (err error) {
				l, err = c.Recv(ctx)
				return err
			})
			if out != done {
				return fatal(out, err)
			}
			if l.ID == 0 {
				heard = true
				return nil
			}
			if l.ID <= before {
				w.wrong("%s: item %d came after %d", from, l.ID, before)
			}
			before = l.ID
			w.got(from, l)
			return nil
		}},
	}
}
