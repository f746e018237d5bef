package codec

import (
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
)

// structure returns the plan for structs. A struct travels as a map from field names, so that builds whose
// fields differ understand each other as far as they can: the reader skips fields that it does not know,
// and leaves those that are missing zero. A field that does not travel has to be zero. With an unexported field that is tagged ",as_array", as msgpack/v5 has it, it travels
// as an array of its fields in order, which is shorter.
func (ps planner) structure(t reflect.Type) plan {
	type member struct {
		field
		*plan
	}
	fields := fieldsOf(t)
	members := make([]member, len(fields))
	byName := make(map[string]*member, len(fields))
	for i, f := range fields {
		members[i] = member{f, ps.of(f.typ)}
		byName[f.name] = &members[i]
	}
	lost := losable(t)
	named, header, kind := true, (*msgpack.Encoder).EncodeMapLen, classMap
	for f := range t.Fields() {
		if f.Tag.Get("msgpack") == ",as_array" {
			named, header, kind = false, (*msgpack.Encoder).EncodeArrayLen, classArray
		}
	}
	return nested(t, 1, plan{
		encode: func(e *encoder, v reflect.Value) error {
			if err := lose(lost, v); err != nil {
				return err
			}
			if err := header(e.Encoder, len(members)); err != nil {
				return err
			}
			for _, m := range members {
				if named {
					if err := e.EncodeString(m.name); err != nil {
						return err
					}
				}
				if err := m.encode(e, v.Field(m.index)); err != nil {
					return within(err, m.name)
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			n, err := d.head(t, kind)
			if err != nil {
				return err
			}
			for i := range n {
				var m *member
				if named {
					name, err := d.text(t, classString)
					if err != nil {
						return err
					}
					m = byName[string(name)]
				} else if i < len(members) {
					m = &members[i]
				}
				if m == nil {
					if err := d.skip(); err != nil {
						return typed(err, t)
					}
					continue
				}
				x := v.Field(m.index)
				if named && x.CanSet() { // the name may come twice; an embedded struct that is not exported can't be set, but its fields can
					x.SetZero()
				}
				if err := m.decode(d, x); err != nil {
					return within(err, m.name)
				}
			}
			return nil
		},
	})
}
