package builtin

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/fiber-go/fiber/internal/object"
)

// The operations of a dict. Keys are encoded values, too.
const (
	DictGet   object.Op[DictKey, Cell]               = dictOps + iota // a key's cell
	DictSet   object.Op[[]object.Value, object.None] = dictOps + iota // any number of keys, each followed by its value
	DictSetIf object.Op[DictWrite, Cell]             = dictOps + iota // set if the key has the version, 0 for a missing key; its cell if not
	DictLen   object.Op[object.None, int]            = dictOps + iota // the number of keys
	DictAll   object.Op[DictParts, []object.Value]   = dictOps + iota // all keys, values, or both, in the order in which the keys came
	DictClear object.Op[object.None, object.None]    = dictOps + iota // remove all keys
)

// DictKey is a key to find.
type DictKey struct {
	Remove bool // remove the key
	Quiet  bool // answer only whether the key was there, without the value
	Key    object.Value
}

// DictWrite is a new value for a key whose cell has the version.
type DictWrite struct {
	Version    uint64
	Key, Value object.Value
}

// DictParts says what of a dict to answer: keys, values, or each key followed by
// its value.
type DictParts struct{ Keys, Values bool }

var dictTable = object.Ops(
	object.On(DictGet, func(d *dict, r object.Asked[Cell], k DictKey) {
		key := keyOf(k.Key)
		e := d.entries[key]
		if e == nil || k.Quiet {
			reply(r, e != nil, nil)
		} else {
			reply(r, true, &e.cell)
		}
		if k.Remove {
			d.remove(key)
		}
	}),
	object.On(DictSet, func(d *dict, r object.Asked[object.None], pairs []object.Value) {
		if len(pairs)%2 != 0 {
			r.Malformed()
			return
		}
		for pair := range slices.Chunk(pairs, 2) {
			d.set(pair[0], pair[1])
		}
		r.Reply(object.None{})
	}),
	object.On(DictSetIf, func(d *dict, r object.Asked[Cell], w DictWrite) {
		switch e := d.entries[keyOf(w.Key)]; {
		case e == nil && w.Version == 0, e != nil && e.version == w.Version:
			d.set(w.Key, w.Value)
			reply(r, true, nil)
		case e == nil:
			reply(r, false, nil)
		default:
			reply(r, false, &e.cell)
		}
	}),
	object.On(DictLen, func(d *dict, r object.Asked[int], _ object.None) { r.Reply(len(d.entries)) }),
	object.On(DictAll, (*dict).all),
	object.On(DictClear, func(d *dict, r object.Asked[object.None], _ object.None) {
		d.clear()
		r.Reply(object.None{})
	}),
)

// dict maps keys to values.
type dict struct {
	store
	entries map[string]*entry
}

type entry struct {
	key  cell // its version orders the entries
	cell      // the value
}

func newDict(s *object.Server) *dict {
	return &dict{store: store{home: s}, entries: map[string]*entry{}}
}

// Serve takes a request.
func (d *dict) Serve(r *object.Request) { serve(&d.base, d, dictTable, r) }

func (d *dict) all(r object.Asked[[]object.Value], p DictParts) {
	all := make([]object.Value, 0, 2*len(d.entries))
	for _, e := range slices.SortedFunc(maps.Values(d.entries), func(a, b *entry) int { return cmp.Compare(a.key.version, b.key.version) }) {
		if p.Keys {
			all = append(all, given(r.Request, e.key.value))
		}
		if p.Values {
			all = append(all, given(r.Request, e.value))
		}
	}
	r.Reply(all)
}

// keyOf makes a map key of the frames of a value.
func keyOf(v object.Value) string {
	frames := v.Frames()
	if len(frames) < 2 {
		return string(v.First)
	}
	var b strings.Builder
	for _, f := range frames {
		b.Write(binary.AppendUvarint(nil, uint64(len(f))))
		b.Write(f)
	}
	return b.String()
}

func (d *dict) set(key, v object.Value) {
	k := keyOf(key)
	e := d.entries[k]
	if e == nil {
		e = &entry{key: d.keep(key)}
		d.entries[k] = e
	}
	old := e.value
	e.cell = d.keep(v)
	d.home.ReleaseRefs(old)
}

func (d *dict) remove(key string) {
	if e := d.entries[key]; e != nil {
		d.home.ReleaseRefs(e.key.value)
		d.home.ReleaseRefs(e.value)
		delete(d.entries, key)
	}
}

func (d *dict) clear() {
	for key := range d.entries {
		d.remove(key)
	}
	d.entries = map[string]*entry{} // a map does not shrink
}

// Drop refuses all waiting requests and releases all values.
func (d *dict) Drop() { d.drop(d.clear) }
