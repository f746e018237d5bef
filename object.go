package fiber

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
)

// builtinObject has what all types of objects that processes share have in
// common. N is the type itself.
type builtinObject[N any] struct {
	h  *handle
	me *proxyID
}

// proxyID tells the proxies of a process apart: each holds locks of its own.
type proxyID struct {
	id   uint64
	once sync.Once // guards the cleanup that reports the proxy's end
}

var proxyIDs atomic.Uint64

// proxyOf is a *T that can be made to refer to an object.
type proxyOf[T any] interface {
	*T
	attach(h *handle)
}

// newObject makes an object in a manager, and a T that refers to it.
func newObject[T any, P proxyOf[T]](ctx context.Context, m *Manager, what builtin.Making) (*T, error) {
	return create[T, P](ctx, m, custom.Make, what)
}

// attach makes o refer to an object.
func (o *builtinObject[N]) attach(h *handle) {
	o.h, o.me = h, &proxyID{id: proxyIDs.Add(1)}
}

func (o *builtinObject[N]) used() *handle { return o.h }

func (o *builtinObject[N]) typ() string {
	name, _, _ := strings.Cut(reflect.TypeFor[N]().Name(), "[")
	return name
}

// MarshalBinary encodes a reference to the object.
func (o *builtinObject[N]) MarshalBinary() ([]byte, error) { return o.h.marshal(o.typ()) }

// UnmarshalBinary attaches to the object that a reference names.
func (o *builtinObject[N]) UnmarshalBinary(b []byte) error {
	h, _, err := unmarshalHandle(o.typ(), b)
	if err == nil {
		o.attach(h)
	}
	return err
}

// decode decodes a value that an object has returned.
func decode[T any](what string, kept object.Value) (T, error) {
	var v T
	err := codec.Unmarshal(kept.Frames(), &v)
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
		if vs[i], err = decode[T](what, v); err != nil {
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

// place is the place of a value in an object.
type place struct {
	get func() (builtin.Cell, error)
	set func(version uint64, v object.Value) (builtin.Cell, error) // if the value still has the version
}

// update replaces a value by what fn returns for it. It calls fn again whenever
// the value was written meanwhile. kept is the encoded value, empty if there is
// none.
func update[T any](ctx context.Context, p place, fn func(old T, kept []object.Value) (T, error)) (v T, err error) {
	c, err := p.get()
	for err == nil {
		var old T
		if old, _, err = decodeCell[T](c, nil); err != nil {
			break
		}
		if v, err = fn(old, c.Values); err != nil {
			break
		}
		var value object.Value
		if value, err = encode(ctx, "the value", v); err != nil {
			break
		}
		if c, err = p.set(c.Version, value); err == nil && c.Done {
			return v, nil
		}
	}
	return *new(T), err
}

// compareAndSet writes v if the value is old. Values whose bytes differ may still
// be equal, such as maps in another order.
func compareAndSet[T any](ctx context.Context, p place, old, v T) (bool, error) {
	before, err := encode(ctx, "the old value", old)
	if err != nil {
		return false, err
	}
	_, err = update(ctx, p, func(is T, kept []object.Value) (T, error) {
		if len(kept) == 0 || !reflect.DeepEqual(is, old) && !kept[0].Equal(before) {
			return v, errUnequal
		}
		return v, nil
	})
	if err == errUnequal {
		return false, nil
	}
	return err == nil, err
}

var errUnequal = errors.New("the value is another one")
