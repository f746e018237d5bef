package builtin

import (
	"fmt"
	"math"
	"slices"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of a list.
const (
	ListGet    object.Op[int, Cell]                = listOps + iota // an index's cell
	ListSetIf  object.Op[ListWrite, Cell]          = listOps + iota // set if the index has the version; its cell if not
	ListSlice  object.Op[ListPart, []object.Value] = listOps + iota // the values of a part
	ListSplice object.Op[ListPart, []object.Value] = listOps + iota // replace a part by other values; what was there
	ListRemove object.Op[object.Value, bool]       = listOps + iota // remove the first such value; whether there was one
	ListLen    object.Op[object.None, int]         = listOps + iota // the number of values
	ListNewer  object.Op[ListWrite, Cell]          = listOps + iota // an index's cell, once it has another version
)

// End stands for the length of a list in a ListPart.
const End = math.MaxInt / 2

// ListPart is the indices Lo to Hi-1, of which negative ones count from the end, and for ListSplice the values that replace
// theirs, as many or not.
type ListPart struct {
	Lo, Hi int
	Quiet  bool // ListSplice answers without the values that were there
	Values []object.Value
}

// ListWrite is a new value for an index whose cell has the version; for ListNewer, none.
type ListWrite struct {
	Index   int
	Version uint64
	Value   object.Value
}

var listTable = object.Ops(
	object.On(ListGet, func(l *list, r object.Asked[Cell], i int) {
		if i, ok := l.at(r.Request, i); ok {
			reply(r, true, &l.cells[i])
		}
	}),
	object.On(ListSetIf, func(l *list, r object.Asked[Cell], w ListWrite) {
		i, ok := l.at(r.Request, w.Index)
		if !ok {
			return
		}
		if c := &l.cells[i]; c.version != w.Version {
			reply(r, false, c)
			return
		}
		l.splice(i, i+1, w.Value)
		reply(r, true, nil)
	}),
	object.On(ListSlice, func(l *list, r object.Asked[[]object.Value], p ListPart) {
		if lo, hi, ok := l.part(r.Request, p); ok {
			l.give(r, lo, hi)
		}
	}),
	object.On(ListSplice, func(l *list, r object.Asked[[]object.Value], p ListPart) {
		lo, hi, ok := l.part(r.Request, p)
		if !ok {
			return
		}
		if p.Quiet {
			r.Reply(nil)
		} else {
			l.give(r, lo, hi)
		}
		l.splice(lo, hi, p.Values...)
	}),
	object.On(ListRemove, func(l *list, r object.Asked[bool], v object.Value) {
		i := slices.IndexFunc(l.cells, func(c cell) bool { return c.value.Equal(v) })
		if i >= 0 {
			l.splice(i, i+1)
		}
		r.Reply(i >= 0)
	}),
	object.On(ListNewer, func(l *list, r object.Asked[Cell], w ListWrite) {
		i, ok := l.at(r.Request, w.Index)
		if ok && l.cells[i].version == w.Version {
			l.waiting = append(l.waiting, waiter{r: r.Request, index: i, version: w.Version})
		} else if ok {
			reply(r, true, &l.cells[i])
		}
	}),
	object.On(ListLen, func(l *list, r object.Asked[int], _ object.None) { r.Reply(len(l.cells)) }),
)

// list is a sequence of values.
type list struct {
	store
	cells []cell
}

func newList(s *object.Server, values []object.Value) *list {
	l := &list{store: store{home: s}}
	l.splice(0, 0, values...)
	return l
}

// Serve takes a request.
func (l *list) Serve(r *object.Request) { serve(&l.base, l, listTable, r) }

// Behind returns the index behind n values from lo on.
func Behind(lo, n int) int {
	if lo < 0 && lo+n == 0 {
		return End
	}
	return lo + n
}

// at returns where an index is. If the list has no such index, at refuses the
// request.
func (l *list) at(r *object.Request, i int) (int, bool) {
	lo, _, ok := l.part(r, ListPart{Lo: i, Hi: Behind(i, 1)})
	return lo, ok
}

// part returns where a part begins and ends. If the list has no such part, part
// refuses the request.
func (l *list) part(r *object.Request, p ListPart) (lo, hi int, ok bool) {
	n := len(l.cells)
	place := func(i int) int {
		switch {
		case i == End:
			return n
		case i < 0:
			return i + n
		}
		return i
	}
	lo, hi = place(p.Lo), place(p.Hi)
	switch {
	case 0 <= lo && lo <= hi && hi <= n:
		return lo, hi, true
	case len(p.Values) > 1 && p.Lo != End:
		r.Fail(OutOfRange, fmt.Sprintf("%d values from index %d on do not fit a length of %d", len(p.Values), p.Lo, n))
	case lo < 0 || lo > n || hi == lo+1:
		r.Fail(OutOfRange, fmt.Sprintf("there is no index %d; the length is %d", p.Lo, n))
	default:
		r.Fail(OutOfRange, fmt.Sprintf("%d to %d is out of range; the length is %d", p.Lo, p.Hi, n))
	}
	return 0, 0, false
}

// give answers with the values lo to hi-1.
func (l *list) give(r object.Asked[[]object.Value], lo, hi int) {
	values := make([]object.Value, 0, hi-lo)
	for _, c := range l.cells[lo:hi] {
		values = append(values, given(r.Request, c.value))
	}
	r.Reply(values)
}

// splice replaces the values lo to hi-1 by others.
func (l *list) splice(lo, hi int, values ...object.Value) {
	cells := make([]cell, len(values))
	for i, v := range values {
		cells[i] = l.keep(v)
	}
	for _, c := range l.cells[lo:hi] {
		l.home.ReleaseRefs(c.value)
	}
	l.cells = slices.Replace(l.cells, lo, hi, cells...)
	l.waiting = slices.DeleteFunc(l.waiting, func(w waiter) bool {
		if w.index < len(l.cells) && l.cells[w.index].version == w.version {
			return false
		}
		if i, ok := l.at(w.r, w.index); ok {
			reply(object.Asked[Cell]{Request: w.r}, true, &l.cells[i])
		}
		return true
	})
}

// Drop refuses all waiting requests and releases all values.
func (l *list) Drop() {
	l.drop(func() { l.splice(0, len(l.cells)) })
}
