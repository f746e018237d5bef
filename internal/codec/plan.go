package codec

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// plan encodes and decodes values of one type; it is worked out once. The value passed to decode is
// settable and zero. All errors are *Error.
type plan struct {
	encode func(*encoder, reflect.Value) error
	decode func(*decoder, reflect.Value) error
}

var plans sync.Map // of reflect.Type to *plan

// planOf returns the plan for t. It never fails: if values of t cannot travel, the plan's functions
// return the error.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	ps := planner{}
	p := ps.of(t)
	for t, p := range ps {
		plans.Store(t, p)
	}
	return p
}

// planner holds the plans being made, so that a recursive type finds its own. They are published together,
// when all are complete.
type planner map[reflect.Type]*plan

func (ps planner) of(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	if p, ok := ps[t]; ok {
		return p
	}
	p := new(plan)
	ps[t] = p
	*p = ps.make(t)
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
	if reflect.PointerTo(t).Implements(packedType) {
		return packedPlan(t)
	}
	if c := customOf(t); c != nil {
		return c.plan(t)
	}
	switch t.Kind() {
	case reflect.String:
		return stringPlan
	case reflect.Pointer:
		return ps.pointer(t)
	case reflect.Slice, reflect.Array:
		return ps.list(t)
	case reflect.Map:
		return ps.mapping(t)
	case reflect.Struct:
		return ps.structure(t)
	case reflect.Interface:
		return plan{encode: encodeAny, decode: decodeAny}
	default:
		return scalarPlan(t.Kind())
	}
}

// nested returns the plan p for a type with values inside, which count so many levels deeper: neither a
// cycle nor a hostile message goes on for ever. A nil, if the type has one, travels as such.
func nested(t reflect.Type, levels int, p plan) plan {
	nilable := slices.Contains([]reflect.Kind{reflect.Slice, reflect.Map, reflect.Pointer, reflect.Func, reflect.Chan}, t.Kind())
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if nilable && v.IsNil() {
				return e.EncodeNil()
			}
			if e.depth+levels > maxDepth {
				return fail(t, "nested more than %d levels deep, or a cycle", maxDepth)
			}
			e.depth += levels // until it has succeeded: an error ends everything
			err := p.encode(e, v)
			e.depth -= levels
			return err
		},
		decode: func(d *decoder, v reflect.Value) error {
			if nilable && d.is(msgpcode.Nil) {
				return nil
			}
			if err := d.enter(t, levels); err != nil {
				return err
			}
			err := p.decode(d, v)
			d.depth -= levels
			return err
		},
	}
}

// addressable returns v if it has an address, or else a copy that has one.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}
