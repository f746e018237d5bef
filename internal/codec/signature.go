package codec

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Signature returns a text that is equal for two types, even of different builds, exactly if values of
// one are understood as the other and mean the same. The text has the names with package paths, the
// names and types of the fields that travel, and, for a type with an encoding of its own, the kind of
// encoding.
func Signature(t reflect.Type) string {
	var b strings.Builder
	sign(&b, t, make(map[reflect.Type]bool))
	return b.String()
}

func sign(b *strings.Builder, t reflect.Type, seen map[reflect.Type]bool) {
	if t.Name() != "" {
		if t.PkgPath() != "" {
			b.WriteString(t.PkgPath() + ".")
		}
		b.WriteString(t.Name())
		if t.PkgPath() == "" || t == timeType || seen[t] {
			return // predeclared, or already spelled out
		}
		seen[t] = true
		if c := customOf(t); c != nil {
			b.WriteString("(" + c.name + ")")
			return
		}
		b.WriteByte('=')
	}
	switch t.Kind() {
	case reflect.Pointer:
		b.WriteByte('*')
		sign(b, t.Elem(), seen)
	case reflect.Slice:
		b.WriteString("[]")
		sign(b, t.Elem(), seen)
	case reflect.Array:
		fmt.Fprintf(b, "[%d]", t.Len())
		sign(b, t.Elem(), seen)
	case reflect.Map:
		b.WriteString("map[")
		sign(b, t.Key(), seen)
		b.WriteByte(']')
		sign(b, t.Elem(), seen)
	case reflect.Struct:
		b.WriteString("struct{")
		for i, f := range fieldsOf(t) {
			if i > 0 {
				b.WriteString("; ")
			}
			if f.name == "" || strings.ContainsAny(f.name, " ;{}\"") {
				b.WriteString(strconv.Quote(f.name))
			} else {
				b.WriteString(f.name)
			}
			b.WriteByte(' ')
			sign(b, f.typ, seen)
		}
		b.WriteByte('}')
	case reflect.Interface:
		if t.NumMethod() == 0 {
			b.WriteString("any")
			break
		}
		b.WriteString(t.String())
	default:
		b.WriteString(t.Kind().String())
	}
}
