package codec

import (
	"bytes"
	"reflect"
)

// structure returns the plan for structs. A struct travels as a map from field names, so that builds whose
// fields differ understand each other as far as they can: the reader skips fields that it does not know,
// and leaves those that are missing zero.
func (ps planner) structure(t reflect.Type) plan {
	type member struct {
		field
		*plan
		key []byte // the name as written
	}
	fields := fieldsOf(t)
	members := make([]member, len(fields))
	byName := make(map[string]int, len(fields))
	optional := false
	for i, f := range fields {
		e := encoder{}
		e.string(f.name)
		members[i] = member{f, ps.of(f.typ), e.buf}
		byName[f.name] = i
		optional = optional || f.optional()
	}
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if err := e.enter(t); err != nil {
				return err
			}
			defer e.leave()
			n := len(members)
			if optional {
				for i := range members {
					if _, ok := members[i].get(v); !ok {
						n--
					}
				}
			}
			e.mapLen(n)
			for i := range members {
				m := &members[i]
				x, ok := m.get(v)
				if !ok {
					continue
				}
				e.buf = append(e.buf, m.key...)
				if err := m.encode(e, x); err != nil {
					return within(err, m.name)
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			if err := d.enter(t); err != nil {
				return err
			}
			defer d.leave()
			tok, err := d.want(t, classMap)
			if err != nil {
				return err
			}
			next := 0 // fields from here on have not been seen
			for range tok.n {
				if next < len(members) && bytes.HasPrefix(d.buf[d.pos:], members[next].key) {
					m := &members[next]
					d.pos += len(m.key)
					next++
					if err := m.decode(d, m.set(v)); err != nil {
						return within(err, m.name)
					}
					continue
				}
				name, err := d.want(t, classString)
				if err != nil {
					return err
				}
				i, known := byName[string(d.take(name.n))]
				if !known {
					if err := d.skip(); err != nil {
						return typed(err, t)
					}
					continue
				}
				next = max(next, i+1)
				x := members[i].set(v)
				x.SetZero()
				if err := members[i].decode(d, x); err != nil {
					return within(err, members[i].name)
				}
			}
			return nil
		},
	}
}
