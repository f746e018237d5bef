package codec

import (
	"reflect"
	"slices"
)

// losable lists the fields of t that do not travel though nobody said so, and may hold something.
func losable(t reflect.Type) (fields []field) {
	if ofSync(t) {
		return nil
	}
	travelling := fieldsOf(t)
	for i := range t.NumField() {
		f := t.Field(i)
		travels := slices.ContainsFunc(travelling, func(f field) bool { return f.index == i })
		if !travels && !leftOut(f) && f.Type.Size() > 0 {
			fields = append(fields, field{f.Name, i, f.Type})
		}
	}
	return fields
}

// leftOut says whether nobody misses a field that does not travel.
func leftOut(f reflect.StructField) bool { return f.Name == "_" || tagName(f) == "-" || ofSync(f.Type) }

// ofSync says whether t is one of sync's or sync/atomic's types. What is in those means nothing to another process.
func ofSync(t reflect.Type) bool { return t.PkgPath() == "sync" || t.PkgPath() == "sync/atomic" }

// lose returns an error if the struct v would lose what is in one of the fields.
func lose(fields []field, v reflect.Value) error {
	for _, f := range fields {
		if filled(v.Field(f.index)) {
			return within(fail(f.typ, "the field is not exported and not zero, and would be lost: export it, tag it `msgpack:\"-\"`, or give the struct an encoding of its own"), f.name)
		}
	}
	return nil
}

// filled says whether something in v would be missed.
func filled(v reflect.Value) bool {
	switch {
	case v.IsZero(), ofSync(v.Type()):
		return false
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			if filled(v.Index(i)) {
				return true
			}
		}
		return false
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if !leftOut(v.Type().Field(i)) && filled(v.Field(i)) {
				return true
			}
		}
		return false
	}
	return true
}
