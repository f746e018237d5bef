package codec

import (
	"fmt"
	"reflect"
)

// mapping returns the plan for maps. A nil map stays nil. Entries are in no
// particular order.
func (ps planner) mapping(t reflect.Type) plan {
	key, elem := ps.of(t.Key()), ps.of(t.Elem())
	return nested(t, 1, plan{
		encode: func(e *encoder, v reflect.Value) error {
			if err := fits(t, v.Len()); err != nil {
				return err
			}
			if err := e.EncodeMapLen(v.Len()); err != nil {
				return err
			}
			for it := v.MapRange(); it.Next(); {
				k := it.Key()
				if err := key.encode(e, k); err != nil {
					return within(err, keyText(k))
				}
				if err := elem.encode(e, it.Value()); err != nil {
					return within(err, keyText(k))
				}
			}
			return nil
		},
		decode: func(d *decoder, v reflect.Value) error {
			n, err := d.head(t, classMap)
			if err != nil {
				return err
			}
			v.Set(reflect.MakeMapWithSize(t, min(n, firstBytes/(1+int(t.Key().Size()+t.Elem().Size())))))
			k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			for range n {
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
	})
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
