package codec

import (
	"fmt"
	"reflect"
	"strings"
)

// Signature returns a text that is equal for two types, even of different builds, exactly if values of
// one are understood as the other and mean the same. The text has the names with package paths, the
// names and types of the fields that travel, and, for a type with an encoding of its own, the kind of
// encoding.
//
// If no value of type t can travel, Signature returns an [*Error] with the path inside the type, such as
// "Config.Hook" for a func in a field of a field. The contents of an any are checked only when a value is
// encoded.
func Signature(t reflect.Type) (string, error) {
	s := signer{seen: make(map[reflect.Type]bool)}
	err := s.sign(t)
	return s.String(), err
}

// Plain says whether values of type t are encoded and decoded without calling
// methods of theirs.
func Plain(t reflect.Type) bool {
	s := signer{seen: make(map[reflect.Type]bool)}
	return s.sign(t) == nil && !s.methods
}

// Own says whether values of type t are encoded by methods of theirs, whatever their parts are.
func Own(t reflect.Type) bool { return customOf(t) != nil }

type signer struct {
	strings.Builder
	seen    map[reflect.Type]bool
	methods bool // some value in it has, or may have, an encoding of its own
}

func (s *signer) sign(t reflect.Type) error {
	if reason := refuse(t); reason != "" {
		return fail(t, "%s", reason)
	}
	if t.Name() != "" {
		if t.PkgPath() != "" {
			s.WriteString(t.PkgPath() + ".")
		}
		s.WriteString(t.Name())
		if t.PkgPath() == "" || s.seen[t] {
			return nil // predeclared, or already spelled out
		}
		s.seen[t] = true
		if c := customOf(t); c != nil {
			s.methods = s.methods || t != timeType
			s.WriteString("(" + c.name + ")")
			return nil
		}
		s.WriteByte('=')
	}
	switch t.Kind() {
	case reflect.Pointer:
		s.WriteByte('*')
		return s.sign(t.Elem())
	case reflect.Slice, reflect.Array:
		s.WriteByte('[')
		if t.Kind() == reflect.Array {
			fmt.Fprint(s, t.Len())
		}
		s.WriteByte(']')
		return within(s.sign(t.Elem()), "[]")
	case reflect.Map:
		s.WriteString("map[")
		if err := s.sign(t.Key()); err != nil {
			return within(err, "[key]")
		}
		s.WriteByte(']')
		return within(s.sign(t.Elem()), "[]")
	case reflect.Struct:
		s.WriteString("struct{")
		for i, f := range fieldsOf(t) {
			if i > 0 {
				s.WriteString("; ")
			}
			s.WriteString(f.name + " ")
			if err := s.sign(f.typ); err != nil {
				return within(err, f.name)
			}
		}
		s.WriteByte('}')
	case reflect.Interface:
		s.methods = true
		s.WriteString("any")
	default:
		s.WriteString(t.Kind().String())
	}
	return nil
}
