package fiber

import (
	"reflect"
	"sync"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
)

// near has the pool prefer workers that have what a task refers to. refs returns the task's references.
func (o *callOptions) near(pool *Pool, refs func(task int) []object.Ref) {
	if !o.Plain { // else there are none
		o.Near = func(task int) (has func(worker string) int, most int) { return pool.proc.objects.Copies(refs(task)) }
	}
}

// A task's references are looked for in the first nearParts parts of its argument that may have any, and in the first nearRefs
// elements of each list in it, until nearRefs are found: a million of them cost no more.
const (
	nearParts = 64
	nearRefs  = 8
)

// refsIn returns the first references in the argument that arg points to. It calls no code of the user's, so it leaves out what an
// encoding of the user's own names, and it leaves out maps, which have no order.
func refsIn(arg any) []object.Ref {
	var s refSearch
	s.look(reflect.ValueOf(arg).Elem())
	return s.refs
}

// fibers is the package of all users but those that embed another one.
var fibers = reflect.TypeFor[proxy]().PkgPath()

type refSearch struct {
	parts int
	refs  []object.Ref
}

func (s *refSearch) look(v reflect.Value) {
	if s.parts == nearParts || len(s.refs) == nearRefs {
		return
	}
	if v.Kind() == reflect.Struct && v.CanAddr() && v.Addr().CanInterface() && v.Type().PkgPath() == fibers { // what embeds one may be nil
		if u, is := v.Addr().Interface().(user); is {
			if h := used(u); h != nil {
				s.refs = append(s.refs, h.ref)
			}
			return
		}
	}
	if !searchable(v.Type()) {
		return
	}
	s.parts++
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			s.look(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range min(v.Len(), nearRefs) {
			s.look(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() || v.Type().Field(i).Anonymous {
				s.look(f)
			}
		}
	}
}

// searchable reports whether parts of a value of type t may be references.
func searchable(t reflect.Type) bool {
	is, known := searched.Load(t)
	if !known {
		is = !codec.Plain(t) && !codec.Own(t)
		searched.Store(t, is)
	}
	return is.(bool)
}

var searched sync.Map // of reflect.Type to what searchable returns
