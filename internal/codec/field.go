package codec

import (
	"reflect"
	"slices"
	"strings"
)

// field is a field of a struct as it travels.
type field struct {
	name      string
	index     []int // longer than 1 inside an embedded struct
	typ       reflect.Type
	omitEmpty bool
	indirect  bool // behind an embedded pointer
}

// fieldsOf lists the fields of t that travel: the exported ones not tagged "-", under the name in their tag.
// The fields of an embedded struct are listed among the struct's own, unless one of their names is taken, or
// the embedded struct's tag has a name or noinline: it then stays a field itself.
func fieldsOf(t reflect.Type) []field {
	return appendFields(nil, t, nil)
}

func appendFields(fields []field, t reflect.Type, outer []reflect.Type) []field {
	taken := make(map[string]bool)
	for f, tag := range tagged(t) {
		if !f.Anonymous {
			taken[tag.nameOr(f.Name)] = true
		}
	}
	for f, tag := range tagged(t) {
		if inner := embedded(f); inner != nil && !slices.Contains(outer, inner) && tag.inline() {
			inlined := appendFields(nil, inner, append(outer, t))
			if !slices.ContainsFunc(inlined, func(f field) bool { return taken[f.name] }) {
				for _, g := range inlined {
					taken[g.name] = true
					g.index = append(slices.Clone(f.Index), g.index...)
					g.indirect = g.indirect || f.Type.Kind() == reflect.Pointer
					fields = append(fields, g)
				}
				continue
			}
		}
		name := tag.nameOr(f.Name)
		taken[name] = true
		fields = append(fields, field{name: name, index: f.Index, typ: f.Type, omitEmpty: tag.has("omitempty")})
	}
	return fields
}

// tagged yields the fields of t that travel, in order, each with its tag.
func tagged(t reflect.Type) func(func(reflect.StructField, tag) bool) {
	return func(yield func(reflect.StructField, tag) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			g := tag(f.Tag.Get("msgpack"))
			if g.name() == "-" || !f.IsExported() && embedded(f) == nil {
				continue
			}
			if !yield(f, g) {
				return
			}
		}
	}
}

// embedded returns the struct type that f embeds, if its fields are to be inlined, or nil.
func embedded(f reflect.StructField) reflect.Type {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !f.Anonymous || t.Kind() != reflect.Struct || t == timeType || customOf(t) != nil {
		return nil
	}
	return t
}

// tag is a field's msgpack tag: "name,omitempty".
type tag string

func (g tag) name() string {
	name, _, _ := strings.Cut(string(g), ",")
	return name
}

func (g tag) nameOr(name string) string {
	if n := g.name(); n != "" {
		return n
	}
	return name
}

func (g tag) has(option string) bool {
	return slices.Contains(strings.Split(string(g), ",")[1:], option)
}

func (g tag) inline() bool { return (g.name() == "" || g.has("inline")) && !g.has("noinline") }

// optional reports whether the field may be left out.
func (f *field) optional() bool { return f.omitEmpty || f.indirect }

// get returns the field of v, or false if the field is left out.
func (f *field) get(v reflect.Value) (reflect.Value, bool) {
	for i, x := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, !f.omitEmpty || !isEmpty(v)
}

// set returns the field of v to decode into; it allocates embedded structs on the way.
func (f *field) set(v reflect.Value) reflect.Value {
	for i, x := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}
