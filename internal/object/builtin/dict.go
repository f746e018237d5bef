package builtin

import (
	"encoding/binary"
	"strings"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of a dict. Keys are encoded values, too.
const (
	DictGet        object.Op[object.Value, Cell]          = dictOps + iota // a key's cell
	DictSet        object.Op[[]object.Value, object.None] = dictOps + iota // any number of keys, each followed by its value
	DictSetIf      object.Op[DictWrite, Cell]             = dictOps + iota // set if the key has the version, 0 for a missing key; its cell if not
	DictSwap       object.Op[DictExchange, Cell]          = dictOps + iota // set if the value is Old; its cell if not
	DictSetDefault object.Op[DictEntry, Cell]             = dictOps + iota // set if the key is missing; its cell if not
	DictPop        object.Op[object.Value, Cell]          = dictOps + iota // remove a key; the cell that was there
	DictDelete     object.Op[object.Value, bool]          = dictOps + iota // remove a key; whether it was there
	DictHas        object.Op[object.Value, bool]          = dictOps + iota // whether a key is there
	DictLen        object.Op[object.None, int]            = dictOps + iota // the number of keys
	DictKeys       object.Op[object.None, []object.Value] = dictOps + iota // all keys, in the order in which they came
	DictValues     object.Op[object.None, []object.Value] = dictOps + iota // all values, in the same order
	DictAll        object.Op[object.None, []object.Value] = dictOps + iota // all keys, each followed by its value, in the same order
	DictClear      object.Op[object.None, object.None]    = dictOps + iota // remove all keys
)

// DictEntry is a key and a value for it.
type DictEntry struct{ Key, Value object.Value }

// DictWrite is a new value for a key whose cell has the version.
type DictWrite struct {
	Version    uint64
	Key, Value object.Value
}

// DictExchange is a new value for a key that has the old one.
type DictExchange struct{ Key, Old, New object.Value }

var dictTable = object.Ops(
	object.On(DictGet, func(d *dict, r object.Asked[Cell], key object.Value) { reply(r, true, d.cell(key)) }),
	object.On(DictSet, func(d *dict, r object.Asked[object.None], pairs []object.Value) {
		if len(pairs)%2 != 0 {
			r.Malformed()
			return
		}
		for i := 0; i < len(pairs); i += 2 {
			d.set(pairs[i], pairs[i+1], len(pairs)/2)
		}
		r.Reply(object.None{})
	}),
	object.On(DictSetIf, func(d *dict, r object.Asked[Cell], w DictWrite) {
		c := d.cell(w.Key)
		d.setIf(r, c == nil && w.Version == 0 || c != nil && c.version == w.Version, w.Key, w.Value, c)
	}),
	object.On(DictSwap, func(d *dict, r object.Asked[Cell], x DictExchange) {
		c := d.cell(x.Key)
		d.setIf(r, c != nil && equal(c.value, x.Old), x.Key, x.New, c)
	}),
	object.On(DictSetDefault, func(d *dict, r object.Asked[Cell], e DictEntry) {
		c := d.cell(e.Key)
		d.setIf(r, c == nil, e.Key, e.Value, c)
	}),
	object.On(DictPop, func(d *dict, r object.Asked[Cell], key object.Value) {
		c := d.cell(key)
		reply(r, c != nil, c)
		d.remove(key)
	}),
	object.On(DictDelete, func(d *dict, r object.Asked[bool], key object.Value) { r.Reply(d.remove(key)) }),
	object.On(DictHas, func(d *dict, r object.Asked[bool], key object.Value) { r.Reply(d.cell(key) != nil) }),
	object.On(DictLen, func(d *dict, r object.Asked[int], _ object.None) { r.Reply(len(d.cells)) }),
	object.On(DictKeys, func(d *dict, r object.Asked[[]object.Value], _ object.None) { d.all(r, true, false) }),
	object.On(DictValues, func(d *dict, r object.Asked[[]object.Value], _ object.None) { d.all(r, false, true) }),
	object.On(DictAll, func(d *dict, r object.Asked[[]object.Value], _ object.None) { d.all(r, true, true) }),
	object.On(DictClear, func(d *dict, r object.Asked[object.None], _ object.None) {
		d.clear()
		r.Reply(object.None{})
	}),
)

// dict maps keys to values, in the order in which the keys came.
type dict struct {
	store
	cells map[string]*entry
	order []*entry // nil where one was removed
}

type entry struct {
	cell
	key   object.Value
	place int // in order
}

func newDict(s *object.Server) *dict {
	return &dict{store: store{home: s}, cells: map[string]*entry{}}
}

// Serve takes a request.
func (d *dict) Serve(r *object.Request) { serveStored(&d.store, d, dictTable, r) }

// cell returns a key's cell, nil when the key is missing.
func (d *dict) cell(key object.Value) *cell {
	if e := d.cells[keyOf(key)]; e != nil {
		return &e.cell
	}
	return nil
}

// setIf sets a key if that is right, and otherwise answers with its cell.
func (d *dict) setIf(r object.Asked[Cell], right bool, key, v object.Value, has *cell) {
	if !right {
		reply(r, false, has)
		return
	}
	d.set(key, v, 2)
	reply(r, true, nil)
}

func (d *dict) all(r object.Asked[[]object.Value], keys, values bool) {
	all := make([]object.Value, 0, 2*len(d.cells))
	for _, e := range d.order {
		if e != nil && keys {
			all = append(all, given(r.Request, e.key))
		}
		if e != nil && values {
			all = append(all, given(r.Request, e.value))
		}
	}
	r.Reply(all)
}

// keyOf makes a map key of the frames of a value.
func keyOf(v object.Value) string {
	if len(v.Frames) == 1 {
		return string(v.Frames[0])
	}
	var b strings.Builder
	for _, f := range v.Frames {
		b.Write(binary.AppendUvarint(nil, uint64(len(f))))
		b.Write(f)
	}
	return b.String()
}

func (d *dict) set(key, v object.Value, of int) {
	k := keyOf(key)
	e := d.cells[k]
	if e == nil {
		e = &entry{key: d.keep(key, 2).value, place: len(d.order)}
		d.cells[k] = e
		d.order = append(d.order, e)
	}
	old := e.value
	e.cell = d.keep(v, max(of, 2))
	d.free(old)
}

// remove removes a key, and says whether it was there.
func (d *dict) remove(key object.Value) bool {
	k := keyOf(key)
	e := d.cells[k]
	if e == nil {
		return false
	}
	delete(d.cells, k)
	d.order[e.place] = nil
	d.free(e.key)
	d.free(e.value)
	if len(d.order) < 16 || len(d.order) < 2*len(d.cells) {
		return true
	}
	order := make([]*entry, 0, len(d.cells))
	for _, e := range d.order {
		if e != nil {
			e.place = len(order)
			order = append(order, e)
		}
	}
	d.order = order
	return true
}

func (d *dict) clear() {
	for _, e := range d.cells {
		d.free(e.key)
		d.free(e.value)
	}
	d.cells, d.order = map[string]*entry{}, nil
}

// Drop refuses all waiting requests and releases all values.
func (d *dict) Drop() {
	d.base.Drop()
	d.mu.Lock()
	d.clear()
	d.mu.Unlock()
	d.letGo()
}
