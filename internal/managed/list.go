package managed

import (
	"fmt"
	"slices"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a list. "current" is what the function of that name
// answers.
const (
	ListGet    byte = listOps + iota // index: current
	ListSet                          // index, values: set that one and those behind it
	ListSetIf                        // index, version, value: set if it has the version; current if not
	ListSwap                         // index; old, new: set if it is old; current if not
	ListAppend                       // values
	ListInsert                       // index, values
	ListPop                          // index: take out; current, of what was there
	ListDelete                       // index: take out
	ListRemove                       // value: take the first such out; whether there was one
	ListLen                          // how many
	ListSlice                        // lo, hi: these values
	ListAll                          // all values
	ListClear                        // take all out
)

// list is values in their order.
type list struct {
	store
	cells []cell
}

func newList(h *home.Home, values []home.Value) *list {
	l := &list{store: store{home: h}}
	l.cells = l.keepAll(values)
	return l
}

func (l *list) keepAll(vs []home.Value) []cell {
	cells := make([]cell, len(vs))
	for i, v := range vs {
		cells[i] = l.keep(v, len(vs))
	}
	return cells
}

// Serve takes a request.
func (l *list) Serve(r *home.Request) {
	args := wire.Reader{B: r.Args}
	var index, hi int
	var version uint64
	switch r.Op {
	case ListGet, ListSet, ListSwap, ListInsert, ListPop, ListDelete:
		index = args.Int()
	case ListSetIf:
		index, version = args.Int(), args.Uvarint()
	case ListSlice:
		index, hi = args.Int(), args.Int()
	}
	vs, err := Unpack(&args, r.Value)
	if err != nil {
		r.Malformed()
		return
	}
	l.mu.Lock()
	defer l.unlock()
	if l.gone {
		r.Fail(home.Gone, "")
		return
	}
	wants, last := 0, len(l.cells)-1 // how many values; the last index there is
	switch r.Op {
	case ListSet:
		wants, last = len(vs), len(l.cells)-max(len(vs), 1)
		if len(vs) == 0 { // nothing to set, at an end perhaps
			last = len(l.cells)
		}
	case ListInsert:
		wants, last = len(vs), len(l.cells)
	case ListAppend:
		wants, last = len(vs), 0
	case ListSetIf, ListRemove:
		wants = 1
	case ListSwap:
		wants = 2
	}
	switch r.Op {
	case ListRemove, ListLen, ListAll, ListClear:
		last = 0
	case ListSlice:
		if last = len(l.cells); index <= last && (hi < index || hi > last) {
			r.Fail(OutOfRange, fmt.Sprintf("%d to %d is no part of a length of %d", index, hi, len(l.cells)))
			return
		}
	}
	switch {
	case len(vs) != wants:
		r.Malformed()
	case index > last && len(vs) > 1 && r.Op == ListSet:
		r.Fail(OutOfRange, fmt.Sprintf("%d values from index %d on do not fit a length of %d", len(vs), index, len(l.cells)))
	case index > last:
		r.Fail(OutOfRange, fmt.Sprintf("there is no index %d; the length is %d", index, len(l.cells)))
	default:
		l.serve(r, index, hi, version, vs)
	}
}

// serve answers a request that holds. The lock is held.
func (l *list) serve(r *home.Request, index, hi int, version uint64, vs []home.Value) {
	switch r.Op {
	case ListGet:
		current(r, true, &l.cells[index])
	case ListSet:
		for i, v := range vs {
			l.set(index+i, v, len(vs))
		}
		r.Reply(nil, nil)
	case ListSetIf:
		if c := &l.cells[index]; c.version != version {
			current(r, false, c)
			return
		}
		l.set(index, vs[0], 1)
		current(r, true, nil)
	case ListSwap:
		if c := &l.cells[index]; !equal(c.value, vs[0]) {
			current(r, false, c)
			return
		}
		l.set(index, vs[1], 2)
		current(r, true, nil)
	case ListAppend:
		l.cells = append(l.cells, l.keepAll(vs)...)
		r.Reply(nil, nil)
	case ListInsert:
		l.cells = slices.Insert(l.cells, index, l.keepAll(vs)...)
		r.Reply(nil, nil)
	case ListPop:
		current(r, true, &l.cells[index])
		l.remove(index)
	case ListDelete:
		l.remove(index)
		r.Reply(nil, nil)
	case ListRemove:
		i := slices.IndexFunc(l.cells, func(c cell) bool { return equal(c.value, vs[0]) })
		if i >= 0 {
			l.remove(i)
		}
		number(r, int(bit(i >= 0)))
	case ListLen:
		number(r, len(l.cells))
	case ListSlice, ListAll:
		if r.Op == ListAll {
			hi = len(l.cells)
		}
		values := make([]home.Value, 0, hi-index)
		for _, c := range l.cells[index:hi] {
			values = append(values, c.value)
		}
		reply(r, nil, values...)
	case ListClear:
		l.clear()
		r.Reply(nil, nil)
	default:
		r.Malformed()
	}
}

func (l *list) set(i int, v home.Value, of int) {
	old := l.cells[i].value
	l.cells[i] = l.keep(v, of)
	l.free(old)
}

func (l *list) remove(i int) {
	l.free(l.cells[i].value)
	l.cells = slices.Delete(l.cells, i, i+1)
}

func (l *list) clear() {
	for _, c := range l.cells {
		l.free(c.value)
	}
	l.cells = nil
}

// GiveUp has nothing to do: every request is answered at once.
func (l *list) GiveUp(*home.Request) {}

// Left has nothing to do: what a process has set stays.
func (l *list) Left(*home.Peer, bool) {}

// Drop lets go of all values.
func (l *list) Drop() {
	l.mu.Lock()
	defer l.unlock()
	l.gone = true
	l.clear()
}
