package fiber

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
)

// proxy is this process's hold on an object. Each value of a type of objects that
// processes share has one.
type proxy struct {
	h  *handle // nil for a zero value
	me *proxyID
}

// user is a value that uses an object: a queue, a dict and so on.
type user interface {
	// held returns the value's proxy, nil if the value is nil, and the name of its
	// type in Go, without parameters.
	held() (*proxy, string)
}

// used returns the handle of a value, nil if the value is nil or zero.
func used(u user) *handle {
	if p, _ := u.held(); p != nil {
		return p.h
	}
	return nil
}

func typeOf(u user) string {
	_, typ := u.held()
	return typ
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
	user
}

// newObject makes an object in a manager, and a T that refers to it.
func newObject[T any, P proxyOf[T]](ctx context.Context, m *Manager, what builtin.Making) (*T, error) {
	return create[T, P](ctx, m, custom.Make, what)
}

// attach makes p refer to an object.
func (p *proxy) attach(h *handle) {
	p.h, p.me = h, &proxyID{id: proxyIDs.Add(1)}
}

// marshalProxy encodes a reference to an object, and more.
func marshalProxy(u user, more ...byte) ([]byte, error) {
	return used(u).marshal(typeOf(u), more...)
}

// unmarshalProxy attaches to the object that a reference names.
func unmarshalProxy(u user, b []byte) error {
	_, err := unmarshalMore(u, b)
	return err
}

// unmarshalMore is unmarshalProxy, and returns what more there is.
func unmarshalMore(u user, b []byte) (more []byte, err error) {
	p, typ := u.held()
	if p == nil {
		return nil, errEmpty(typ)
	}
	h, more, err := unmarshalHandle(typ, b)
	if err == nil {
		p.attach(h)
	}
	return more, err
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
