package codec

import (
	"reflect"
	"sync"
)

// Check returns an error if no value of type t can travel: an [*Error] with the path inside the type, such
// as "Config.Hook" for a func in a field of a field. The contents of an any are checked only when a value
// is encoded.
func Check(t reflect.Type) error {
	return check(t, make(map[reflect.Type]bool))
}

func check(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if reason := refuse(t); reason != "" {
		return fail(t, "%s", reason)
	}
	if t == timeType || customOf(t) != nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Map:
		if err := check(t.Key(), seen); err != nil {
			return within(err, "[key]")
		}
		fallthrough
	case reflect.Slice, reflect.Array:
		if err := check(t.Elem(), seen); err != nil {
			return within(err, "[]")
		}
	case reflect.Pointer:
		return check(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range fieldsOf(t) {
			if err := check(f.typ, seen); err != nil {
				return within(err, f.name)
			}
		}
	}
	return nil
}

var errorType = reflect.TypeFor[error]()

// refuse returns the reason why t itself, apart from the types it is made of, cannot travel; "" if it can.
func refuse(t reflect.Type) string {
	if customOf(t) != nil {
		return ""
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return "a " + t.Kind().String() + " cannot leave its process"
	case reflect.Interface:
		switch {
		case t == errorType:
			return "an error cannot travel inside a value: return it, or send its text"
		case t.NumMethod() > 0:
			return "an interface with methods does not say which type to make: use any or a concrete type"
		}
	case reflect.Struct:
		return refuseStruct(t)
	}
	return ""
}

func refuseStruct(t reflect.Type) string {
	if t.NumField() == 0 || t == reflect.TypeFor[sync.Mutex]() || t == reflect.TypeFor[sync.RWMutex]() {
		return "" // a lock arrives unlocked
	}
	visible := false
	for i := range t.NumField() {
		f := t.Field(i)
		inner := embedded(f)
		switch {
		case tag(f.Tag.Get("msgpack")).name() == "-", f.Name == "_":
			visible = true // left out on purpose
		case f.IsExported():
			visible = true
		case inner != nil && f.Type.Kind() == reflect.Pointer:
			return "the embedded *" + inner.Name() + " is not exported: nothing can be decoded into it"
		case inner != nil:
			visible = true
		}
	}
	if !visible {
		return "it has only unexported fields and would arrive empty"
	}
	names := make(map[string]bool)
	for _, f := range fieldsOf(t) {
		if names[f.name] {
			return "two fields are named " + f.name
		}
		names[f.name] = true
	}
	return ""
}
