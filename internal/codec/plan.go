package codec

import (
	"reflect"
	"sync"
	"time"
)

// plan encodes and decodes values of one type; it is worked out once. The value passed to decode is
// settable and zero. All errors are *Error.
type plan struct {
	encode func(*encoder, reflect.Value) error
	decode func(*decoder, reflect.Value) error

	foreign bool // it calls types' own methods
}

var (
	plans    sync.Map // of reflect.Type to *plan
	planning sync.Mutex
)

// planOf returns the plan for t. It never fails: if values of t cannot travel, the plan's functions
// return the error.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	planning.Lock()
	defer planning.Unlock()
	return planner{}.of(t)
}

// planner holds the plans being made, so that a recursive type finds its own. They are published together
// when the outermost is complete: other goroutines must not see an incomplete one.
type planner map[reflect.Type]*plan

func (ps planner) of(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	if p, ok := ps[t]; ok {
		return p
	}
	p := new(plan)
	first := len(ps) == 0
	ps[t] = p
	*p = ps.make(t)
	p.foreign = foreign(t, map[reflect.Type]bool{})
	if first {
		for t, p := range ps {
			plans.Store(t, p)
		}
	}
	return p
}

var timeType = reflect.TypeFor[time.Time]()

func (ps planner) make(t reflect.Type) plan {
	if reason := refuse(t); reason != "" {
		return plan{
			encode: func(*encoder, reflect.Value) error { return fail(t, "%s", reason) },
			decode: func(*decoder, reflect.Value) error { return fail(t, "%s", reason) },
		}
	}
	if t == timeType {
		return timePlan
	}
	if c := customOf(t); c != nil {
		return c.plan(t)
	}
	switch t.Kind() {
	case reflect.String:
		return stringPlan
	case reflect.Pointer:
		return ps.pointer(t)
	case reflect.Slice:
		return ps.slice(t)
	case reflect.Array:
		return ps.array(t)
	case reflect.Map:
		return ps.mapping(t)
	case reflect.Struct:
		return ps.structure(t)
	case reflect.Interface:
		return plan{encode: encodeAny, decode: decodeAny}
	default:
		return numberPlan(t.Kind())
	}
}
