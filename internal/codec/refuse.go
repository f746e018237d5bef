package codec

import (
	"reflect"
	"sync"
)

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
	fields := fieldsOf(t)
	visible, hidden := len(fields) > 0, false
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.IsExported(), tagName(f) == "-", f.Name == "_":
			visible = true // or left out on purpose
		case f.Anonymous && f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			return "the embedded *" + f.Type.Elem().Name() + " is not exported: nothing can be decoded into it"
		case !f.Anonymous:
			hidden = true
		}
	}
	if !visible {
		return "it has only unexported fields and would arrive empty"
	}
	for _, c := range customs {
		if from := c.inherited(t); from != nil && hidden {
			return "it may have " + c.name + " only by embedding " + from.String() + ", and has unexported fields: give the embedded field a name"
		}
	}
	names := make(map[string]bool)
	for _, f := range fields {
		if names[f.name] {
			return "two fields are named " + f.name
		}
		names[f.name] = true
	}
	return ""
}
