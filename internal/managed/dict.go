package managed

import (
	"encoding/binary"
	"strings"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a dict. Keys are values like others, before what belongs
// to them; "current" is what the function of that name answers.
const (
	DictGet        byte = dictOps + iota // key: current
	DictSet                              // any number of keys, each with a value
	DictSetIf                            // version, key, value: set if the key has the version, 0 for none; current if not
	DictSwap                             // key, old, new: set if it is old; current if not
	DictSetDefault                       // key, value: set if there is none; current if there is
	DictPop                              // key: take out; current, of what was there
	DictDelete                           // key: take out; whether it was there
	DictHas                              // key: whether it is there
	DictLen                              // how many
	DictKeys                             // all keys, in the order in which they came
	DictValues                           // all values, in the same order
	DictAll                              // all keys, each with its value
	DictClear                            // take all out
)

// dict is keys with values, in the order in which the keys came.
type dict struct {
	store
	cells map[string]*entry
	order []*entry // nil where one was taken out
}

type entry struct {
	cell
	key   home.Value
	place int // in order
}

func newDict(h *home.Home) *dict {
	return &dict{store: store{home: h}, cells: map[string]*entry{}}
}

// Serve takes a request.
func (d *dict) Serve(r *home.Request) {
	args := wire.Reader{B: r.Args}
	var version uint64
	if r.Op == DictSetIf {
		version = args.Uvarint()
	}
	vs, err := Unpack(&args, r.Value)
	if err != nil || !takes(r.Op, len(vs)) {
		r.Malformed()
		return
	}
	d.mu.Lock()
	defer d.unlock()
	if d.gone {
		r.Fail(home.Gone, "")
		return
	}
	var e *entry
	var c *cell // e's
	if len(vs) > 0 && r.Op != DictSet {
		if e = d.cells[keyOf(vs[0])]; e != nil {
			c = &e.cell
		}
	}
	switch r.Op {
	case DictGet:
		current(r, true, c)
	case DictSet:
		for i := 0; i < len(vs); i += 2 {
			d.set(vs[i], vs[i+1], len(vs)/2)
		}
		r.Reply(nil, nil)
	case DictSetIf:
		if has := e != nil; has != (version > 0) || has && e.version != version {
			current(r, false, c)
			return
		}
		d.set(vs[0], vs[1], 2)
		current(r, true, nil)
	case DictSwap:
		if e == nil || !equal(e.value, vs[1]) {
			current(r, false, c)
			return
		}
		d.set(vs[0], vs[2], 2)
		current(r, true, nil)
	case DictSetDefault:
		if e == nil {
			d.set(vs[0], vs[1], 2)
		}
		current(r, e == nil, c)
	case DictPop:
		current(r, e != nil, c)
		d.remove(e)
	case DictDelete:
		d.remove(e)
		number(r, int(bit(e != nil)))
	case DictHas:
		number(r, int(bit(e != nil)))
	case DictLen:
		number(r, len(d.cells))
	case DictKeys, DictValues, DictAll:
		all := make([]home.Value, 0, 2*len(d.cells))
		for _, e := range d.order {
			if e != nil && r.Op != DictValues {
				all = append(all, e.key)
			}
			if e != nil && r.Op != DictKeys {
				all = append(all, e.value)
			}
		}
		reply(r, nil, all...)
	case DictClear:
		d.clear()
		r.Reply(nil, nil)
	}
}

// takes says whether an operation goes with so many values.
func takes(op byte, n int) bool {
	switch op {
	case DictGet, DictPop, DictDelete, DictHas:
		return n == 1
	case DictSetIf, DictSetDefault:
		return n == 2
	case DictSwap:
		return n == 3
	case DictSet:
		return n%2 == 0
	case DictLen, DictKeys, DictValues, DictAll, DictClear:
		return n == 0
	}
	return false
}

// keyOf makes a key of the frames of a value.
func keyOf(v home.Value) string {
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

func (d *dict) set(key, v home.Value, of int) {
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

func (d *dict) remove(e *entry) {
	if e == nil {
		return
	}
	delete(d.cells, keyOf(e.key))
	d.order[e.place] = nil
	d.free(e.key)
	d.free(e.value)
	if len(d.order) < 16 || len(d.order) < 2*len(d.cells) {
		return
	}
	order := make([]*entry, 0, len(d.cells))
	for _, e := range d.order {
		if e != nil {
			e.place = len(order)
			order = append(order, e)
		}
	}
	d.order = order
}

func (d *dict) clear() {
	for _, e := range d.cells {
		d.free(e.key)
		d.free(e.value)
	}
	d.cells, d.order = map[string]*entry{}, nil
}

// GiveUp has nothing to do: every request is answered at once.
func (d *dict) GiveUp(*home.Request) {}

// Left has nothing to do: what a process has set stays.
func (d *dict) Left(*home.Peer, bool) {}

// Drop lets go of all values.
func (d *dict) Drop() {
	d.mu.Lock()
	defer d.unlock()
	d.gone = true
	d.clear()
}
