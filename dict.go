package fiber

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"runtime"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Dict is a map that lives in a manager and that processes share. Create it
// with NewDict. It travels as (part of) an argument, a result, or a value of
// another managed object; all copies are the same dict. Any goroutine may use
// it.
//
// Values are copied on the way in and on the way out: to change one in the
// dict, change what Get returned and Set it. A managed object as a value, such
// as a *List, is shared and not copied. Keys are equal if their encodings are.
// They stay in the order in which they were added.
//
// Each method, Update included, is one step: others see all of its effect or
// none. Methods block only until the manager answers. When ctx ends, nothing was
// changed, unless the error is ErrUnknownOutcome, too. Methods return ErrClosed
// when the manager was closed, a *WorkerLostError when its process was lost, an
// *EncodeError for a key or value that cannot travel, and a *MismatchError for a
// value that is not a V.
type Dict[K comparable, V any] struct{ p proxy }

// NewDict makes an empty dict in a manager.
func NewDict[K comparable, V any](ctx context.Context, m *Manager) (*Dict[K, V], error) {
	if err := travels[K]("NewDict", "its keys"); err != nil {
		return nil, err
	}
	if err := travels[V]("NewDict", "its values"); err != nil {
		return nil, err
	}
	return newObject[Dict[K, V]](ctx, m, builtin.Making{Kind: builtin.KindDict})
}

// Get returns the value of a key, and whether the key is there.
func (d *Dict[K, V]) Get(ctx context.Context, k K) (V, bool, error) {
	return decodeCell[V](find(ctx, d, k, builtin.DictKey{}))
}

// Set sets the value of a key.
func (d *Dict[K, V]) Set(ctx context.Context, k K, v V) error {
	return setKey(ctx, d, k, "the value", v)
}

// SetMany sets all keys of a map in one step. New keys are added in no
// particular order.
func (d *Dict[K, V]) SetMany(ctx context.Context, values map[K]V) error {
	pairs := make([]object.Value, 0, 2*len(values))
	for k, v := range values {
		pair, err := encodePair(ctx, k, "the value", v)
		if err != nil {
			return err
		}
		pairs = append(pairs, pair...)
	}
	return do(ctx, d, builtin.DictSet, pairs)
}

// SetDefault returns the value of a key. If the key is not there, SetDefault
// sets it to v first.
func (d *Dict[K, V]) SetDefault(ctx context.Context, k K, v V) (V, error) {
	pair, err := encodePair(ctx, k, "the value", v)
	if err != nil {
		return *new(V), err
	}
	is, found, err := decodeCell[V](settle(ctx, d, builtin.DictSetIf, builtin.DictWrite{Key: pair[0], Value: pair[1]}))
	if err != nil || found {
		return is, err
	}
	return v, nil
}

// Delete removes a key and reports whether it was there.
func (d *Dict[K, V]) Delete(ctx context.Context, k K) (bool, error) {
	return has(find(ctx, d, k, builtin.DictKey{Remove: true, Quiet: true}))
}

// Pop removes a key and returns its value, and whether the key was there.
func (d *Dict[K, V]) Pop(ctx context.Context, k K) (V, bool, error) {
	return decodeCell[V](find(ctx, d, k, builtin.DictKey{Remove: true}))
}

// Has reports whether a key is there.
func (d *Dict[K, V]) Has(ctx context.Context, k K) (bool, error) {
	return has(find(ctx, d, k, builtin.DictKey{Quiet: true}))
}

// Len returns the number of keys.
func (d *Dict[K, V]) Len(ctx context.Context) (int, error) {
	return read(ctx, d, builtin.DictLen, object.None{})
}

// Keys returns all keys, in the order in which they were added.
func (d *Dict[K, V]) Keys(ctx context.Context) ([]K, error) {
	keys, err := read(ctx, d, builtin.DictAll, builtin.DictParts{Keys: true})
	return decodeAll[K]("a key of the dict", keys, err)
}

// Values returns all values, in the order of their keys.
func (d *Dict[K, V]) Values(ctx context.Context) ([]V, error) {
	values, err := read(ctx, d, builtin.DictAll, builtin.DictParts{Values: true})
	return decodeAll[V]("a value of the dict", values, err)
}

// All returns all keys with their values, in the order in which the keys were
// added, as they are at the time of the call. The loop over them sends no
// requests, and may change the dict.
func (d *Dict[K, V]) All(ctx context.Context) (iter.Seq2[K, V], error) {
	pairs, err := read(ctx, d, builtin.DictAll, builtin.DictParts{Keys: true, Values: true})
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

// Clear removes all keys.
func (d *Dict[K, V]) Clear(ctx context.Context) error {
	return do(ctx, d, builtin.DictClear, object.None{})
}

// CompareAndSet sets a key to v if its value equals old, and reports whether it
// did. Values are equal by reflect.DeepEqual; managed objects are equal if they
// are the same one. A key that is not there has no value, and is not set.
func (d *Dict[K, V]) CompareAndSet(ctx context.Context, k K, old, v V) (bool, error) {
	p, err := d.place(ctx, k)
	if err != nil {
		return false, err
	}
	return compareAndSet(ctx, p, old, v)
}

// Update replaces the value of a key by what fn returns for it, and returns the
// new value. ok says whether the key had a value. fn runs in this process. If
// the key was written meanwhile, fn runs again with the new value, so that any
// number of processes can count without a lock. If fn returns an error, Update
// returns it, and the dict stays as it was. Where many processes update the
// same key, fn should be quick: a slow fn runs again more often.
func (d *Dict[K, V]) Update(ctx context.Context, k K, fn func(old V, ok bool) (V, error)) (V, error) {
	if fn == nil {
		return *new(V), errNilFunc(ctx, "Update")
	}
	p, err := d.place(ctx, k)
	if err != nil {
		return *new(V), err
	}
	return update(ctx, p, func(old V, kept []object.Value) (V, error) { return fn(old, len(kept) > 0) })
}

func (d *Dict[K, V]) place(ctx context.Context, k K) (place, error) {
	key, err := encode(ctx, "the key", k)
	return place{
		func() (builtin.Cell, error) { return read(ctx, d, builtin.DictGet, builtin.DictKey{Key: key}) },
		func(version uint64, v object.Value) (builtin.Cell, error) {
			return settle(ctx, d, builtin.DictSetIf, builtin.DictWrite{Version: version, Key: key, Value: v})
		},
	}, err
}

// MarshalBinary encodes a reference to the dict, which does not keep it alive; see
// Proxy.MarshalBinary.
func (d *Dict[K, V]) MarshalBinary() ([]byte, error) { return marshalProxy(d) }

// UnmarshalBinary attaches to the dict that a reference names.
func (d *Dict[K, V]) UnmarshalBinary(b []byte) error { return unmarshalProxy(d, b) }

func (d *Dict[K, V]) held() (*proxy, string) {
	if d == nil {
		return nil, "Dict"
	}
	return &d.p, "Dict"
}

// Dicts and namespaces have the rest in common.

// find asks for the cell of a key.
func find(ctx context.Context, u user, k any, how builtin.DictKey) (c builtin.Cell, err error) {
	if how.Key, err = encode(ctx, "the key", k); err != nil {
		return c, err
	}
	if how.Remove {
		return settle(ctx, u, builtin.DictGet, how)
	}
	return read(ctx, u, builtin.DictGet, how)
}

func has(c builtin.Cell, err error) (bool, error) { return c.Done, err }

func setKey(ctx context.Context, u user, k any, what string, v any) error {
	pair, err := encodePair(ctx, k, what, v)
	if err != nil {
		return err
	}
	return do(ctx, u, builtin.DictSet, pair)
}

// encodePair encodes a key and its value.
func encodePair(ctx context.Context, k any, what string, v any) ([]object.Value, error) {
	key, err := encode(ctx, "the key", k)
	if err != nil {
		return nil, err
	}
	value, err := encode(ctx, what, v)
	return []object.Value{key, value}, err
}

// Namespace holds named values of any types. It lives in a manager, and
// processes share it. Create it with NewNamespace. It travels as (part of) an
// argument, a result, or a value of another managed object; all copies are the
// same namespace. Any goroutine may use it.
//
// As with a Dict, what goes in and comes out is a copy, and each method is one
// step. The errors are a Dict's, too.
type Namespace struct{ p proxy }

// NewNamespace makes an empty namespace in a manager.
func NewNamespace(ctx context.Context, m *Manager) (*Namespace, error) {
	return newObject[Namespace](ctx, m, builtin.Making{Kind: builtin.KindDict})
}

// Set sets the value of a name.
func (n *Namespace) Set(ctx context.Context, name string, v any) error {
	return setKey(ctx, n, name, name, v)
}

// Get decodes the value of a name into the variable that into points to, and
// reports whether the name has a value. If the value cannot be decoded into
// that type, the error is a *MismatchError.
func (n *Namespace) Get(ctx context.Context, name string, into any) (bool, error) {
	if used(n) == nil {
		return false, errEmpty("Namespace")
	}
	if v := reflect.ValueOf(into); v.Kind() != reflect.Pointer || v.IsNil() {
		return false, fmt.Errorf("fiber: Namespace.Get(%q): into must be a pointer that is not nil, and is a %T", name, into)
	}
	c, err := find(ctx, n, name, builtin.DictKey{})
	if err != nil || len(c.Values) == 0 {
		return false, err
	}
	err = codec.Unmarshal(c.Values[0].Frames(), into)
	runtime.KeepAlive(c) // as in decode
	if err != nil {
		return false, mismatch("%s in the namespace is not of type %v: %v", name, reflect.TypeOf(into).Elem(), err)
	}
	return true, nil
}

// Delete removes a name and reports whether it was there.
func (n *Namespace) Delete(ctx context.Context, name string) (bool, error) {
	return has(find(ctx, n, name, builtin.DictKey{Remove: true, Quiet: true}))
}

// Names returns all names, in the order in which they were added.
func (n *Namespace) Names(ctx context.Context) ([]string, error) {
	names, err := read(ctx, n, builtin.DictAll, builtin.DictParts{Keys: true})
	return decodeAll[string]("a name", names, err)
}

// MarshalBinary encodes a reference to the namespace, which does not keep it alive; see
// Proxy.MarshalBinary.
func (n *Namespace) MarshalBinary() ([]byte, error) { return marshalProxy(n) }

// UnmarshalBinary attaches to the namespace that a reference names.
func (n *Namespace) UnmarshalBinary(b []byte) error { return unmarshalProxy(n, b) }

func (n *Namespace) held() (*proxy, string) {
	if n == nil {
		return nil, "Namespace"
	}
	return &n.p, "Namespace"
}
