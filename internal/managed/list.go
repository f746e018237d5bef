package managed

import (
	"fmt"
	"slices"

	"github.com/fiber-go/fiber/internal/home"
)

// The operations of a list.
const (
	ListGet    home.Op[int, Cell]               = listOps + iota // an index's cell
	ListSet    home.Op[ListSpan, home.None]     = listOps + iota // set that one and those behind it
	ListSetIf  home.Op[ListWrite, Cell]         = listOps + iota // set if it has the version; its cell if not
	ListSwap   home.Op[ListExchange, Cell]      = listOps + iota // set if it is old; its cell if not
	ListAppend home.Op[[]home.Value, home.None] = listOps + iota
	ListInsert home.Op[ListSpan, home.None]     = listOps + iota
	ListPop    home.Op[int, Cell]               = listOps + iota // take an index out; the cell that was there
	ListDelete home.Op[int, home.None]          = listOps + iota // take an index out
	ListRemove home.Op[home.Value, bool]        = listOps + iota // take the first such out; whether there was one
	ListLen    home.Op[home.None, int]          = listOps + iota // how many
	ListSlice  home.Op[ListPart, []home.Value]  = listOps + iota // these values
	ListAll    home.Op[home.None, []home.Value] = listOps + iota // all values
	ListClear  home.Op[home.None, home.None]    = listOps + iota // take all out
)

// ListSpan is values from an index on.
type ListSpan struct {
	Index  int
	Values []home.Value
}

// ListWrite is a value for an index that has a version.
type ListWrite struct {
	Index   int
	Version uint64
	Value   home.Value
}

// ListExchange is a value for an index that has another.
type ListExchange struct {
	Index    int
	Old, New home.Value
}

// ListPart is the indices Lo to Hi-1.
type ListPart struct{ Lo, Hi int }

var listTable = home.Ops(
	home.On(ListGet, func(l *list, r home.Asked[Cell], i int) {
		if l.has(r.Request, i) {
			reply(r, true, &l.cells[i])
		}
	}),
	home.On(ListSet, (*list).setFrom),
	home.On(ListSetIf, func(l *list, r home.Asked[Cell], w ListWrite) {
		if l.has(r.Request, w.Index) {
			l.setIf(r, l.cells[w.Index].version == w.Version, w.Index, w.Value)
		}
	}),
	home.On(ListSwap, func(l *list, r home.Asked[Cell], x ListExchange) {
		if l.has(r.Request, x.Index) {
			l.setIf(r, equal(l.cells[x.Index].value, x.Old), x.Index, x.New)
		}
	}),
	home.On(ListAppend, func(l *list, r home.Asked[home.None], vs []home.Value) {
		l.cells = append(l.cells, l.keepAll(vs)...)
		r.Reply(home.None{})
	}),
	home.On(ListInsert, func(l *list, r home.Asked[home.None], s ListSpan) {
		if s.Index == len(l.cells) || l.has(r.Request, s.Index) {
			l.cells = slices.Insert(l.cells, s.Index, l.keepAll(s.Values)...)
			r.Reply(home.None{})
		}
	}),
	home.On(ListPop, func(l *list, r home.Asked[Cell], i int) {
		if l.has(r.Request, i) {
			reply(r, true, &l.cells[i])
			l.remove(i)
		}
	}),
	home.On(ListDelete, func(l *list, r home.Asked[home.None], i int) {
		if l.has(r.Request, i) {
			l.remove(i)
			r.Reply(home.None{})
		}
	}),
	home.On(ListRemove, func(l *list, r home.Asked[bool], v home.Value) {
		i := slices.IndexFunc(l.cells, func(c cell) bool { return equal(c.value, v) })
		if i >= 0 {
			l.remove(i)
		}
		r.Reply(i >= 0)
	}),
	home.On(ListLen, func(l *list, r home.Asked[int], _ home.None) { r.Reply(len(l.cells)) }),
	home.On(ListSlice, func(l *list, r home.Asked[[]home.Value], p ListPart) {
		switch n := len(l.cells); {
		case p.Lo > n:
			l.has(r.Request, p.Lo)
		case p.Hi < p.Lo || p.Hi > n:
			r.Fail(OutOfRange, fmt.Sprintf("%d to %d is no part of a length of %d", p.Lo, p.Hi, n))
		default:
			l.give(r, p.Lo, p.Hi)
		}
	}),
	home.On(ListAll, func(l *list, r home.Asked[[]home.Value], _ home.None) { l.give(r, 0, len(l.cells)) }),
	home.On(ListClear, func(l *list, r home.Asked[home.None], _ home.None) {
		l.clear()
		r.Reply(home.None{})
	}),
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

// Serve takes a request.
func (l *list) Serve(r *home.Request) { serveStored(&l.store, l, listTable, r) }

func (l *list) keepAll(vs []home.Value) []cell {
	cells := make([]cell, len(vs))
	for i, v := range vs {
		cells[i] = l.keep(v, len(vs))
	}
	return cells
}

// has says whether there is an index, and refuses otherwise.
func (l *list) has(r *home.Request, index int) bool {
	if index >= len(l.cells) {
		r.Fail(OutOfRange, fmt.Sprintf("there is no index %d; the length is %d", index, len(l.cells)))
	}
	return index < len(l.cells)
}

func (l *list) setFrom(r home.Asked[home.None], s ListSpan) {
	switch n := len(s.Values); {
	case n > 1 && s.Index > len(l.cells)-n:
		r.Fail(OutOfRange, fmt.Sprintf("%d values from index %d on do not fit a length of %d", n, s.Index, len(l.cells)))
		return
	case n == 0 && s.Index == len(l.cells): // nothing to set, at the end
	case !l.has(r.Request, s.Index):
		return
	}
	for i, v := range s.Values {
		l.set(s.Index+i, v, len(s.Values))
	}
	r.Reply(home.None{})
}

// setIf sets a value where that is right, and else answers what is there.
func (l *list) setIf(r home.Asked[Cell], right bool, i int, v home.Value) {
	if !right {
		reply(r, false, &l.cells[i])
		return
	}
	l.set(i, v, 2)
	reply(r, true, nil)
}

// give answers the values from lo to hi-1.
func (l *list) give(r home.Asked[[]home.Value], lo, hi int) {
	values := make([]home.Value, 0, hi-lo)
	for _, c := range l.cells[lo:hi] {
		values = append(values, given(r.Request, c.value))
	}
	r.Reply(values)
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

// Drop lets go of all values.
func (l *list) Drop() {
	l.base.Drop()
	l.mu.Lock()
	l.clear()
	l.mu.Unlock()
	l.letGo()
}
