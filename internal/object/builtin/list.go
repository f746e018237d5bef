package builtin

import (
	"fmt"
	"slices"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of a list.
const (
	ListGet    object.Op[int, Cell]                   = listOps + iota // an index's cell
	ListSet    object.Op[ListSpan, object.None]       = listOps + iota // set the values from an index on
	ListSetIf  object.Op[ListWrite, Cell]             = listOps + iota // set if the index has the version; its cell if not
	ListSwap   object.Op[ListExchange, Cell]          = listOps + iota // set if the value is Old; its cell if not
	ListAppend object.Op[[]object.Value, object.None] = listOps + iota
	ListInsert object.Op[ListSpan, object.None]       = listOps + iota
	ListPop    object.Op[int, Cell]                   = listOps + iota // remove an index; the cell that was there
	ListDelete object.Op[int, object.None]            = listOps + iota // remove an index
	ListRemove object.Op[object.Value, bool]          = listOps + iota // remove the first such value; whether there was one
	ListLen    object.Op[object.None, int]            = listOps + iota // the number of values
	ListSlice  object.Op[ListPart, []object.Value]    = listOps + iota // the values of a part
	ListAll    object.Op[object.None, []object.Value] = listOps + iota // all values
	ListClear  object.Op[object.None, object.None]    = listOps + iota // remove all values
)

// ListSpan is values from an index on.
type ListSpan struct {
	Index  int
	Values []object.Value
}

// ListWrite is a new value for an index whose cell has the version.
type ListWrite struct {
	Index   int
	Version uint64
	Value   object.Value
}

// ListExchange is a new value for an index that has the old one.
type ListExchange struct {
	Index    int
	Old, New object.Value
}

// ListPart is the indices Lo to Hi-1.
type ListPart struct{ Lo, Hi int }

var listTable = object.Ops(
	object.On(ListGet, func(l *list, r object.Asked[Cell], i int) {
		if l.has(r.Request, i) {
			reply(r, true, &l.cells[i])
		}
	}),
	object.On(ListSet, (*list).setFrom),
	object.On(ListSetIf, func(l *list, r object.Asked[Cell], w ListWrite) {
		if l.has(r.Request, w.Index) {
			l.setIf(r, l.cells[w.Index].version == w.Version, w.Index, w.Value)
		}
	}),
	object.On(ListSwap, func(l *list, r object.Asked[Cell], x ListExchange) {
		if l.has(r.Request, x.Index) {
			l.setIf(r, equal(l.cells[x.Index].value, x.Old), x.Index, x.New)
		}
	}),
	object.On(ListAppend, func(l *list, r object.Asked[object.None], vs []object.Value) {
		l.cells = append(l.cells, l.keepAll(vs)...)
		r.Reply(object.None{})
	}),
	object.On(ListInsert, func(l *list, r object.Asked[object.None], s ListSpan) {
		if s.Index == len(l.cells) || l.has(r.Request, s.Index) {
			l.cells = slices.Insert(l.cells, s.Index, l.keepAll(s.Values)...)
			r.Reply(object.None{})
		}
	}),
	object.On(ListPop, func(l *list, r object.Asked[Cell], i int) {
		if l.has(r.Request, i) {
			reply(r, true, &l.cells[i])
			l.remove(i)
		}
	}),
	object.On(ListDelete, func(l *list, r object.Asked[object.None], i int) {
		if l.has(r.Request, i) {
			l.remove(i)
			r.Reply(object.None{})
		}
	}),
	object.On(ListRemove, func(l *list, r object.Asked[bool], v object.Value) {
		i := slices.IndexFunc(l.cells, func(c cell) bool { return equal(c.value, v) })
		if i >= 0 {
			l.remove(i)
		}
		r.Reply(i >= 0)
	}),
	object.On(ListLen, func(l *list, r object.Asked[int], _ object.None) { r.Reply(len(l.cells)) }),
	object.On(ListSlice, func(l *list, r object.Asked[[]object.Value], p ListPart) {
		switch n := len(l.cells); {
		case p.Lo > n:
			l.has(r.Request, p.Lo)
		case p.Hi < p.Lo || p.Hi > n:
			r.Fail(OutOfRange, fmt.Sprintf("%d to %d is out of range; the length is %d", p.Lo, p.Hi, n))
		default:
			l.give(r, p.Lo, p.Hi)
		}
	}),
	object.On(ListAll, func(l *list, r object.Asked[[]object.Value], _ object.None) { l.give(r, 0, len(l.cells)) }),
	object.On(ListClear, func(l *list, r object.Asked[object.None], _ object.None) {
		l.clear()
		r.Reply(object.None{})
	}),
)

// list is a sequence of values.
type list struct {
	store
	cells []cell
}

func newList(s *object.Server, values []object.Value) *list {
	l := &list{store: store{home: s}}
	l.cells = l.keepAll(values)
	return l
}

// Serve takes a request.
func (l *list) Serve(r *object.Request) { serveStored(&l.store, l, listTable, r) }

func (l *list) keepAll(vs []object.Value) []cell {
	cells := make([]cell, len(vs))
	for i, v := range vs {
		cells[i] = l.keep(v, len(vs))
	}
	return cells
}

// has says whether an index exists, and otherwise refuses the request.
func (l *list) has(r *object.Request, index int) bool {
	if index >= len(l.cells) {
		r.Fail(OutOfRange, fmt.Sprintf("there is no index %d; the length is %d", index, len(l.cells)))
	}
	return index < len(l.cells)
}

func (l *list) setFrom(r object.Asked[object.None], s ListSpan) {
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
	r.Reply(object.None{})
}

// setIf sets a value if that is right, and otherwise answers with what is there.
func (l *list) setIf(r object.Asked[Cell], right bool, i int, v object.Value) {
	if !right {
		reply(r, false, &l.cells[i])
		return
	}
	l.set(i, v, 2)
	reply(r, true, nil)
}

// give answers with the values lo to hi-1.
func (l *list) give(r object.Asked[[]object.Value], lo, hi int) {
	values := make([]object.Value, 0, hi-lo)
	for _, c := range l.cells[lo:hi] {
		values = append(values, given(r.Request, c.value))
	}
	r.Reply(values)
}

func (l *list) set(i int, v object.Value, of int) {
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

// Drop refuses all waiting requests and releases all values.
func (l *list) Drop() {
	l.base.Drop()
	l.mu.Lock()
	l.clear()
	l.mu.Unlock()
	l.letGo()
}
