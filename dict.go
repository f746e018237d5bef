package fiber

import (
	"context"
	"iter"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Dict is a map that lives in a manager and that processes share. It is made
// by NewDict and travels as (part of) an argument, a result, or a value of
// another managed object; all copies are the same dict. Any goroutine may use
// it.
//
// What is set and what is got are copies: changing what Get gave changes
// nothing in the dict, setting it does. A managed object as a value, a *List
// say, is shared and not copied. Keys are the same when their encodings are.
// They stay in the order in which they came.
//
// Each method is one step that others see altogether or not at all, Update
// included. Methods wait for the manager's answer and for nothing else; after
// an error of ctx what was asked for may have been done. They give ErrClosed
// when the manager was closed, a *WorkerLostError when its process was lost, an
// *EncodeError for what cannot travel, and a *MismatchError for a value that is
// no V.
type Dict[K comparable, V any] struct{ builtinObject[dictType] }

type dictType struct{}

func (dictType) objectType() (string, string, byte) { return "dict", "Dict", 'D' }

// NewDict makes an empty dict in a manager.
func NewDict[K comparable, V any](ctx context.Context, m *Manager) (*Dict[K, V], error) {
	if err := travels[K]("NewDict", "its keys"); err != nil {
		return nil, err
	}
	if err := travels[V]("NewDict", "its values"); err != nil {
		return nil, err
	}
	o, err := makeObject[dictType](ctx, m, builtin.Making{Kind: builtin.KindDict})
	if err != nil {
		return nil, err
	}
	return &Dict[K, V]{o}, nil
}

// Get gives the value of a key, and whether there is one.
func (d *Dict[K, V]) Get(ctx context.Context, k K) (V, bool, error) {
	return decodeCell[V](keyed(ctx, d, builtin.DictGet, k))
}

// Set gives a key a value.
func (d *Dict[K, V]) Set(ctx context.Context, k K, v V) error {
	e, err := entryOf(k, "the value", v)
	if err != nil {
		return err
	}
	return do(ctx, d, builtin.DictSet, []object.Value{e.Key, e.Value})
}

// SetMany sets all keys of a map in one step, those that are new in no
// particular order.
func (d *Dict[K, V]) SetMany(ctx context.Context, values map[K]V) error {
	pairs := make([]object.Value, 0, 2*len(values))
	for k, v := range values {
		e, err := entryOf(k, "the value", v)
		if err != nil {
			return err
		}
		pairs = append(pairs, e.Key, e.Value)
	}
	return do(ctx, d, builtin.DictSet, pairs)
}

// SetDefault gives the value of a key, which is set to v if there is none.
func (d *Dict[K, V]) SetDefault(ctx context.Context, k K, v V) (V, error) {
	e, err := entryOf(k, "the value", v)
	if err != nil {
		var none V
		return none, err
	}
	is, found, err := decodeCell[V](settle(ctx, d, builtin.DictSetDefault, e))
	if err != nil || found {
		return is, err
	}
	return v, nil
}

// Delete takes a key out and says whether it was there.
func (d *Dict[K, V]) Delete(ctx context.Context, k K) (bool, error) {
	return keyed(ctx, d, builtin.DictDelete, k)
}

// Pop takes a key out and gives its value, and whether there was one.
func (d *Dict[K, V]) Pop(ctx context.Context, k K) (V, bool, error) {
	return decodeCell[V](keyed(ctx, d, builtin.DictPop, k))
}

// Has says whether a key is there.
func (d *Dict[K, V]) Has(ctx context.Context, k K) (bool, error) {
	return keyed(ctx, d, builtin.DictHas, k)
}

// Len is the number of keys.
func (d *Dict[K, V]) Len(ctx context.Context) (int, error) {
	return settle(ctx, d, builtin.DictLen, object.None{})
}

// Keys gives all keys, in the order in which they came.
func (d *Dict[K, V]) Keys(ctx context.Context) ([]K, error) {
	keys, err := settle(ctx, d, builtin.DictKeys, object.None{})
	return decodeAll[K]("key", keys, err)
}

// Values gives all values, in the order of their keys.
func (d *Dict[K, V]) Values(ctx context.Context) ([]V, error) {
	values, err := settle(ctx, d, builtin.DictValues, object.None{})
	return decodeAll[V]("value", values, err)
}

// All gives all keys with their values, in the order in which the keys came,
// as they are at the time of the call: the loop over them asks for nothing
// more, and may change the dict.
func (d *Dict[K, V]) All(ctx context.Context) (iter.Seq2[K, V], error) {
	pairs, err := settle(ctx, d, builtin.DictAll, object.None{})
	if err != nil {
		return nil, err
	}
	keys, values := make([]K, len(pairs)/2), make([]V, len(pairs)/2)
	for i := range keys {
		if keys[i], err = decode[K]("a key of the dict", pairs[2*i]); err != nil {
			return nil, err
		}
		if values[i], err = decode[V]("a value of the dict", pairs[2*i+1]); err != nil {
			return nil, err
		}
	}
	return func(yield func(K, V) bool) {
		for i, k := range keys {
			if !yield(k, values[i]) {
				return
			}
		}
	}, nil
}

// Clear takes all keys out.
func (d *Dict[K, V]) Clear(ctx context.Context) error {
	return do(ctx, d, builtin.DictClear, object.None{})
}

// CompareAndSet sets a key if its value is old, as reflect.DeepEqual says or
// since it is the same managed object, and says whether it did. A key that is
// not there has no value.
func (d *Dict[K, V]) CompareAndSet(ctx context.Context, k K, old, v V) (bool, error) {
	p, err := d.place(ctx, k)
	if err != nil {
		return false, err
	}
	return compareAndSet(p, old, v)
}

// Update sets a key to what fn makes of its value, and gives that. ok says
// whether there was one. fn runs here; if somebody else has written the key
// meanwhile, it runs again, with the new value. So any number of processes may
// count with it, without a lock. An error of fn is given back, and the dict
// stays as it was. fn must be quick where many update the same key: who takes
// longer than the others begins again more often.
func (d *Dict[K, V]) Update(ctx context.Context, k K, fn func(old V, ok bool) (V, error)) (V, error) {
	p, err := d.place(ctx, k)
	if err != nil {
		var none V
		return none, err
	}
	return update(p, fn)
}

func (d *Dict[K, V]) place(ctx context.Context, k K) (place, error) {
	key, err := encode("the key", k)
	return place{
		func() (builtin.Cell, error) { return settle(ctx, d, builtin.DictGet, key) },
		func(version uint64, v object.Value) (builtin.Cell, error) {
			return settle(ctx, d, builtin.DictSetIf, builtin.DictWrite{Version: version, Key: key, Value: v})
		},
		func(old, v object.Value) (builtin.Cell, error) {
			return settle(ctx, d, builtin.DictSwap, builtin.DictExchange{Key: key, Old: old, New: v})
		},
	}, err
}

// What dicts and namespaces have in common.

// keyed sends a request about a key.
func keyed[K, A any](ctx context.Context, u user, op object.Op[object.Value, A], k K) (a A, err error) {
	key, err := encode("the key", k)
	if err != nil {
		return a, err
	}
	return settle(ctx, u, op, key)
}

func entryOf(k any, what string, v any) (e builtin.DictEntry, err error) {
	if e.Key, err = encode("the key", k); err != nil {
		return e, err
	}
	e.Value, err = encode(what, v)
	return e, err
}
