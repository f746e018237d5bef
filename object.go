package fiber

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
)

// objectType is one of the types of objects that processes share.
type objectType interface {
	// objectType returns its name in errors, its name in Go, and the byte that
	// marks it in an encoded reference.
	objectType() (name, typ string, mark byte)
}

// builtinObject is what these types have in common.
type builtinObject[N objectType] struct {
	h  *handle
	me *proxyID
}

// proxyID tells the proxies of a process apart: each holds locks of its own.
type proxyID struct {
	id   uint64
	once sync.Once // guards the cleanup that reports the proxy's end
}

var proxyIDs atomic.Uint64

// makeObject makes an object in a manager.
func makeObject[N objectType](ctx context.Context, m *Manager, what builtin.Making) (builtinObject[N], error) {
	h, err := create(ctx, m, custom.Make, what)
	if err != nil {
		return builtinObject[N]{}, err
	}
	return builtinObjectOf[N](h), nil
}

func builtinObjectOf[N objectType](h *handle) builtinObject[N] {
	return builtinObject[N]{h, &proxyID{id: proxyIDs.Add(1)}}
}

func (o *builtinObject[N]) used() (h *handle, name, typ string) {
	name, typ, _ = (*new(N)).objectType()
	if o != nil {
		h = o.h
	}
	return h, name, typ
}

// what names the object in errors.
func (o *builtinObject[N]) what() string {
	_, name, _ := o.used()
	return "the " + name
}

// errEmpty is the error of using an object that was never initialised.
func (o *builtinObject[N]) errEmpty() error {
	_, _, typ := o.used()
	return errEmpty(typ)
}

// MarshalBinary encodes a reference to the object.
func (o *builtinObject[N]) MarshalBinary() ([]byte, error) {
	_, _, mark := (*new(N)).objectType()
	return o.marshal(mark)
}

// marshal encodes a reference to the object, a mark, and more.
func (o *builtinObject[N]) marshal(mark byte, more ...byte) ([]byte, error) {
	if o == nil || o.h == nil {
		return nil, o.errEmpty()
	}
	return o.h.marshal(append([]byte{mark}, more...)...)
}

// UnmarshalBinary attaches to the object that a reference names.
func (o *builtinObject[N]) UnmarshalBinary(b []byte) error {
	name, _, mark := (*new(N)).objectType()
	_, err := o.unmarshal(mark, name, b)
	return err
}

// unmarshal reads what marshal has encoded, and returns more.
func (o *builtinObject[N]) unmarshal(mark byte, name string, b []byte) (more []byte, err error) {
	h, more, err := unmarshalHandle(b)
	if err != nil {
		return nil, err
	}
	if len(more) == 0 || more[0] != mark {
		return nil, &MismatchError{Reason: "the reference is to another type of object, not to a " + name}
	}
	*o = builtinObjectOf[N](h)
	return more[1:], nil
}

// decode decodes a value that an object has returned.
func decode[T any](what string, kept object.Value) (T, error) {
	var v T
	err := codec.Unmarshal(kept.Frames, &v)
	runtime.KeepAlive(kept) // holds what the value refers to until v does
	if err != nil {
		return v, mismatch("%s is not of type %v: %v", what, reflect.TypeFor[T](), err)
	}
	return v, nil
}

// decodeAll decodes an answer with many values.
func decodeAll[T any](what string, kept []object.Value, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	vs := make([]T, len(kept))
	for i, v := range kept {
		if vs[i], err = decode[T](fmt.Sprintf("%s %d", what, i), v); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// decodeCell decodes an answer about one value, which may be absent.
func decodeCell[T any](c builtin.Cell, err error) (v T, ok bool, _ error) {
	if err != nil || len(c.Values) == 0 {
		return v, false, err
	}
	v, err = decode[T]("the value", c.Values[0])
	return v, err == nil, err
}

// place is the place of a value in an object, and can read and write it.
type place struct {
	get  func() (builtin.Cell, error)
	set  func(version uint64, v object.Value) (builtin.Cell, error) // if the value still has the version
	swap func(old, v object.Value) (builtin.Cell, error)            // if the value is old
}

// update replaces a value by what fn returns for it. It calls fn again whenever
// the value was written meanwhile.
func update[T any](p place, fn func(old T, ok bool) (T, error)) (T, error) {
	var none T
	c, err := p.get()
	for err == nil {
		v, found, err := decodeCell[T](c, nil)
		if err != nil {
			return none, err
		}
		if v, err = fn(v, found); err != nil {
			return none, err
		}
		value, err := encode("the value", v)
		if err != nil {
			return none, err
		}
		if c, err = p.set(c.Version, value); err != nil {
			return none, err
		}
		if c.Done {
			return v, nil
		}
	}
	return none, err
}

// compareAndSet writes v if the value is old. The home compares bytes; if these
// differ, the values may still be equal, such as maps in another order.
func compareAndSet[T any](p place, old, v T) (bool, error) {
	before, err := encode("the old value", old)
	if err != nil {
		return false, err
	}
	after, err := encode("the new value", v)
	if err != nil {
		return false, err
	}
	c, err := p.swap(before, after)
	for err == nil && !c.Done && len(c.Values) > 0 {
		is, _, err := decodeCell[T](c, nil)
		if err != nil || !reflect.DeepEqual(is, old) {
			return false, err
		}
		if c, err = p.set(c.Version, after); err != nil {
			return false, err
		}
	}
	return c.Done, err
}
