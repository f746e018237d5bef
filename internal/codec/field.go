package codec

import (
	"cmp"
	"reflect"
	"strings"
)

// field is a field of a struct as it travels.
type field struct {
	name  string
	index int
	typ   reflect.Type
}

// fieldsOf lists the fields of t that travel, under the names in their msgpack tags: those that are exported,
// and those of embedded structs, which stay together in a field of the embedded struct's name.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := tagName(f)
		embeds := f.Anonymous && f.Type.Kind() == reflect.Struct && customOf(f.Type) == nil
		switch {
		case name == "-", embeds && len(fieldsOf(f.Type)) == 0, !embeds && !f.IsExported():
		default:
			fields = append(fields, field{cmp.Or(name, f.Name), i, f.Type})
		}
	}
	return fields
}

// tagName returns the name in a field's msgpack tag, "" if there is none.
func tagName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
	return name
}
