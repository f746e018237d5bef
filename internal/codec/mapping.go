package codec

import (
	"fmt"
	"reflect"
)

// mapping returns the plan for maps. A nil map stays nil. Entries are in no
// particular order.
func (ps planner) mapping(t reflect.Type) plan {
	key, elem := ps.of(t.Key()), ps.of(t.Elem())
	large := t.Key().Size() >= frameMin || t.Elem().Size() >= frameMin
	return plan{
		encode: func(e *encoder, v reflect.Value) error {
			if v.IsNil() {
				e.nil()
				return nil
			}
			if err := e.enter(t); err != nil {
				return err
			}
			defer e.leave()
			if err := fits(t, v.Len()); err != nil {
				return err
			}
			e.mapLen(v.Len())
			k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			for it := v.MapRange(); it.Next(); {
				if large { // frames may refer to the last ones
					k, x = reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
				}
				k.SetIterKey(it)
				x.SetIterValue(it)
				if err := key.encode(e, k); err != nil {
					return within(err, keyText(k))
				}
				if err := elem.encode(e, x); err != nil {
					return within(err, keyText(k))
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			if d.isNil() {
				return nil
			}
			if err := d.enter(t); err != nil {
				return err
			}
			defer d.leave()
			tok, err := d.want(t, classMap)
			if err != nil {
				return err
			}
			v.Set(reflect.MakeMapWithSize(t, min(tok.n, firstBytes/(1+int(t.Key().Size()+t.Elem().Size())))))
			k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			for range tok.n {
				k.SetZero()
				if err := key.decode(d, k); err != nil {
					return within(err, "[key]")
				}
				if !k.Comparable() {
					return fail(t, "found a key that is not comparable")
				}
				x.SetZero()
				if err := elem.decode(d, x); err != nil {
					return within(err, keyText(k))
				}
				v.SetMapIndex(k, x)
			}
			return nil
		},
	}
}

// keyText returns a key as a step of a path.
func keyText(k reflect.Value) string {
	if k.Kind() == reflect.Interface {
		k = k.Elem()
	}
	switch {
	case k.Kind() == reflect.String:
		return fmt.Sprintf("[%.40q]", k.String())
	case k.CanInt():
		return fmt.Sprintf("[%d]", k.Int())
	case k.CanUint():
		return fmt.Sprintf("[%d]", k.Uint())
	default:
		return "[…]"
	}
}
