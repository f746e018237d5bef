package codec

import (
	"fmt"
	"reflect"
)

// mapping returns the plan for maps. A nil map stays nil. Entries are in no
// particular order.
func (ps planner) mapping(t reflect.Type) plan {
	key, elem := ps.of(t.Key()), ps.of(t.Elem())
	encode := func(e *encoder, k, x reflect.Value) error {
		if err := key.encode(e, k); err != nil {
			return within(err, keyText(k))
		}
		if err := elem.encode(e, x); err != nil {
			return within(err, keyText(k))
		}
		return nil
	}
	decode := func(d *decoder, v, k, x reflect.Value) error {
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
		return nil
	}
	return nested(t, 1, plan{
		encode: func(e *encoder, v reflect.Value) error {
			if err := fits(t, v.Len()); err != nil {
				return err
			}
			if err := e.EncodeMapLen(v.Len()); err != nil {
				return err
			}
			if e.sorted {
				return e.inOrder(v, key, encode)
			}
			most := e.alone + few
			for it := v.MapRange(); it.Next(); {
				if e.alone >= most {
					var left [][2]reflect.Value
					for more := true; more; more = it.Next() {
						left = append(left, [2]reflect.Value{it.Key(), it.Value()})
					}
					_, err := e.rest(t.Elem(), 0, len(left), func(i int) error { return encode(e, left[i][0], left[i][1]) })
					return err
				}
				if err := encode(e, it.Key(), it.Value()); err != nil {
					return err
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
			k, x, most := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem(), d.alone+few
			for i := range n {
				if d.alone >= most {
					_, err := d.rest(t.Elem(), i, n, func(int) error { return decode(d, v, k, x) })
					return err
				}
				if err := decode(d, v, k, x); err != nil {
					return err
				}
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
