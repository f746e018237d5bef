package vet

import (
	"cmp"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// A traveller goes through a type as codec.Signature does, and decides as internal/codec does. A test compares the two.
type traveller struct {
	seen  map[string]bool
	found []barrier
}

// A barrier is a part of a type that does not travel.
type barrier struct {
	text  string     // that of the codec.Error that it leads to
	field *types.Var // the innermost one around the part, or nil
	lost  bool       // the field is not exported: a barrier only if it is set
}

const lost = "the field is not exported and not zero, and would be lost: export it, tag it `msgpack:\"-\"`, or give the struct an encoding of its own"

func (v *traveller) visit(path string, in *types.Var, t types.Type) {
	t = types.Unalias(t)
	if reason := refuse(t); reason != "" {
		v.add(path, in, t, reason)
		return
	}
	name, u := types.TypeString(t, nil), t.Underlying()
	if is[*types.Named](t) && (v.seen[name] || encodingOf(t) != nil) {
		return
	}
	v.seen[name] = true
	if m, ok := u.(*types.Map); ok {
		v.visit(path+"[key]", in, m.Key())
	}
	if list, ok := u.(interface{ Elem() types.Type }); ok {
		if !is[*types.Pointer](u) {
			path += "[]"
		}
		v.visit(path, in, list.Elem())
	}
	for _, f := range fieldsOf(t) {
		switch inner := strings.TrimPrefix(path+"."+f.name, "."); {
		case f.travels:
			v.visit(inner, f.Var, f.Type())
		case !ofSync(t) && !f.unmissed && fillable(f.Type()):
			v.add(inner, f.Var, f.Type(), lost)
		}
	}
}

func (v *traveller) add(path string, in *types.Var, t types.Type, reason string) {
	text := strings.TrimPrefix(path+": "+typeName(t)+": "+reason, ": ")
	v.found = append(v.found, barrier{text, in, reason == lost})
}

func typeName(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

func is[T types.Type](t types.Type) bool {
	_, ok := t.(T)
	return ok
}

// refuse returns the reason why t itself cannot travel.
func refuse(t types.Type) string {
	switch u := t.Underlying(); {
	case is[*types.TypeParam](t), encodingOf(t) != nil:
	case is[*types.Chan](u):
		return "a chan cannot leave its process"
	case is[*types.Signature](u):
		return "a func cannot leave its process"
	case u == types.Typ[types.UnsafePointer]:
		return "a unsafe.Pointer cannot leave its process"
	case types.Identical(t, types.Universe.Lookup("error").Type()):
		return "an error cannot travel inside a value: return it, or send its text"
	case types.IsInterface(t) && types.NewMethodSet(t).Len() > 0:
		return "an interface with methods does not say which type to make: use any or a concrete type"
	case is[*types.Struct](u):
		return refuseStruct(t)
	}
	return ""
}

func refuseStruct(t types.Type) string {
	fields := fieldsOf(t)
	if name := types.TypeString(t, nil); len(fields) == 0 || name == "sync.Mutex" || name == "sync.RWMutex" {
		return ""
	}
	visible, hidden, names := false, false, map[string]bool{}
	for _, f := range fields {
		shown := f.Exported() || f.left
		visible, hidden = visible || shown || f.travels, hidden || !shown && !f.Embedded()
		p, ok := types.Unalias(f.Type()).(*types.Pointer)
		if ok && !shown && f.Embedded() && is[*types.Struct](p.Elem().Underlying()) {
			return "the embedded *" + f.Name() + " is not exported: nothing can be decoded into it"
		}
	}
	if !visible {
		return "it has only unexported fields and would arrive empty"
	}
	for _, e := range encodings {
		if from := e.inherited(t); from != nil && hidden {
			return "it may have " + e.encode + " only by embedding " + typeName(from) + ", and has unexported fields: give the embedded field a name"
		}
	}
	for _, f := range fields {
		if f.travels && names[f.name] {
			return "two fields are named " + f.name
		}
		names[f.name] = names[f.name] || f.travels
	}
	return ""
}

// fillable says whether something in a value of type t may be missed.
func fillable(t types.Type) bool {
	if a, ok := t.Underlying().(*types.Array); ok {
		return a.Len() > 0 && fillable(a.Elem())
	}
	fills := func(f field) bool { return !f.unmissed && fillable(f.Type()) }
	return !ofSync(t) && (!is[*types.Struct](t.Underlying()) || slices.ContainsFunc(fieldsOf(t), fills))
}

// ofSync says whether t is one of sync's or sync/atomic's types.
func ofSync(t types.Type) bool {
	name := types.TypeString(types.Unalias(t), nil)
	return strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "sync/atomic.")
}

// A field is one of a struct.
type field struct {
	*types.Var
	name     string // under which it travels, if it does
	travels  bool
	left     bool // left out on purpose
	unmissed bool // nobody misses it if it does not travel
}

// fieldsOf returns the fields of a struct; of other types, none.
func fieldsOf(t types.Type) (all []field) {
	u, _ := t.Underlying().(*types.Struct)
	for i := 0; u != nil && i < u.NumFields(); i++ {
		f, inner := u.Field(i), u.Field(i).Type()
		tag, _, _ := strings.Cut(reflect.StructTag(u.Tag(i)).Get("msgpack"), ",")
		travels, left := f.Exported(), tag == "-" || f.Name() == "_"
		if f.Embedded() && is[*types.Struct](inner.Underlying()) && encodingOf(inner) == nil {
			travels = slices.ContainsFunc(fieldsOf(inner), func(f field) bool { return f.travels })
		}
		all = append(all, field{f, cmp.Or(tag, f.Name()), travels && tag != "-", left, left || ofSync(inner)})
	}
	return all
}

// An encoding is one way in which a type can have an encoding of its own: a pair of methods.
type encoding struct{ encode, decode string }

var encodings = []encoding{
	{"EncodeMsgpack", "DecodeMsgpack"}, {"MarshalMsgpack", "UnmarshalMsgpack"},
	{"MarshalBinary", "UnmarshalBinary"}, {"MarshalText", "UnmarshalText"},
}

// encodingOf returns the encoding of its own that t has, or nil. A pointer has none: its element is encoded instead.
func encodingOf(t types.Type) *encoding {
	for _, e := range encodings {
		if has(types.NewPointer(t), e.encode, e.decode) && e.inherited(t) == nil {
			return &e
		}
	}
	return nil
}

// inherited returns the type that t embeds and may have the encoding from, nil if nothing else in t travels.
func (e encoding) inherited(t types.Type) (from types.Type) {
	others := false
	for _, f := range fieldsOf(t) {
		if f.Embedded() && f.Exported() && (has(f.Type(), e.encode) || has(types.NewPointer(f.Type()), e.encode)) {
			from = cmp.Or(from, f.Type())
		} else if f.travels {
			others = true
		}
	}
	if !others || !has(types.NewPointer(t), e.encode, e.decode) {
		return nil
	}
	return from
}

// has says whether t has all of the methods.
func has(t types.Type, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return types.NewMethodSet(t).Lookup(nil, name) == nil })
}
