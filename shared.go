package fiber

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/managed"
	"github.com/fiber-go/fiber/internal/wire"
)

// A noun is one of the types of objects that live in managers.
type noun interface {
	// noun gives its name, and the byte that stands for it where one travels.
	noun() (name string, mark byte)
}

// object is what these types have in common.
type object[N noun] struct {
	h  *handle
	me *proxyID
}

// proxyID tells the proxies of a process apart: locks are held by them.
type proxyID struct {
	id   uint64
	once sync.Once // for the cleanup that tells of its end
}

var proxyIDs atomic.Uint64

// makeObject makes an object of a kind in a manager.
func makeObject[N noun](ctx context.Context, m *Manager, kind string, args []byte, values ...home.Value) (object[N], error) {
	h, err := m.make(ctx, kind, args, values...)
	if err != nil {
		return object[N]{}, err
	}
	return objectOf[N](h), nil
}

func objectOf[N noun](h *handle) object[N] {
	return object[N]{h, &proxyID{id: proxyIDs.Add(1)}}
}

func nameOf[N noun]() string {
	var n N
	name, _ := n.noun()
	return name
}

func (o *object[N]) what() string { return "the " + nameOf[N]() }

// empty is the error of an object that is none.
func (o *object[N]) empty() error {
	if o.h == nil {
		return fmt.Errorf("fiber: %s: %w", o.what(), errEmptyHandle)
	}
	return nil
}

// pack makes a request of args and values.
func (o *object[N]) pack(args []byte, values []home.Value) ([]byte, [][]byte, error) {
	if err := o.empty(); err != nil {
		return nil, nil, err
	}
	args, frames := managed.Pack(args, values...)
	if err := o.h.proc.fits(frames); err != nil {
		return nil, nil, fmt.Errorf("fiber: %s: %w", o.what(), err)
	}
	return args, frames, nil
}

// call sends a request that is answered at once. When ctx ends on the way it
// waits for another moment, to know whether it was done.
func (o *object[N]) call(ctx context.Context, op byte, args []byte, values ...home.Value) (home.Answer, error) {
	args, frames, err := o.pack(args, values)
	if err != nil {
		return home.Answer{}, err
	}
	a, err := o.h.proc.home.Settle(ctx, o.h.ref, op, args, frames)
	runtime.KeepAlive(o.h)
	return a, managedError(o.what(), err)
}

// wait sends a request that may be answered late; an answer that comes when
// ctx has ended is given to late, unless that is nil.
func (o *object[N]) wait(ctx context.Context, op byte, args []byte, late func(home.Answer)) (home.Answer, error) {
	if err := o.empty(); err != nil {
		return home.Answer{}, err
	}
	a, err := o.h.proc.home.Call(ctx, o.h.ref, op, args, nil, late)
	runtime.KeepAlive(o.h)
	runtime.KeepAlive(o.me)
	return a, managedError(o.what(), err)
}

// number is call for an answer that is a number.
func (o *object[N]) number(ctx context.Context, op byte, args []byte, values ...home.Value) (int, error) {
	a, err := o.call(ctx, op, args, values...)
	if err != nil {
		return 0, err
	}
	in := wire.Reader{B: a.Args}
	n := in.Int()
	return n, in.Err
}

// yes is call for an answer that is yes or no.
func (o *object[N]) yes(ctx context.Context, op byte, args []byte, values ...home.Value) (bool, error) {
	n, err := o.number(ctx, op, args, values...)
	return n == 1, err
}

// do is call for an answer that says nothing.
func (o *object[N]) do(ctx context.Context, op byte, args []byte, values ...home.Value) error {
	_, err := o.call(ctx, op, args, values...)
	return err
}

// MarshalBinary gives the object's name.
func (o *object[N]) MarshalBinary() ([]byte, error) { return o.marshal(nil) }

func (o *object[N]) marshal(more []byte) ([]byte, error) {
	if err := o.empty(); err != nil {
		return nil, err
	}
	var n N
	_, mark := n.noun()
	return o.h.marshal(append([]byte{mark}, more...)...)
}

// UnmarshalBinary attaches to the object of a name.
func (o *object[N]) UnmarshalBinary(b []byte) error {
	_, err := o.unmarshal(b)
	return err
}

func (o *object[N]) unmarshal(b []byte) (more []byte, err error) {
	h, more, err := unmarshalHandle(b)
	if err != nil {
		return nil, err
	}
	var n N
	name, mark := n.noun()
	if len(more) == 0 || more[0] != mark {
		return nil, &MismatchError{Reason: "what has come is the name of another object, not of a " + name}
	}
	*o = objectOf[N](h)
	return more[1:], nil
}

// Travels tells the codec what travels with the object.
func (o *object[N]) Travels() []any { return o.h.Travels() }

// managedError is an error of an object in a manager as a user sees it.
func managedError(what string, err error) error {
	if err == nil {
		return nil
	}
	if refusal := (*home.Refusal)(nil); errors.As(err, &refusal) {
		switch refusal.Code {
		case managed.OutOfRange:
			return fmt.Errorf("fiber: %s: %s", what, refusal.Text)
		case managed.NotHeld:
			return fmt.Errorf("fiber: %s is not held here: %s", what, refusal.Text)
		case managed.TooOften:
			return fmt.Errorf("fiber: %s has all its permits; call Release once for each Acquire", what)
		case managed.Broken:
			return fmt.Errorf("fiber: %w: %s", ErrBrokenBarrier, refusal.Text)
		}
	}
	return objectError(what, err)
}

// decode decodes a value that an object has kept.
func decode[T any](what string, frames [][]byte) (T, error) {
	var v T
	if err := codec.Unmarshal(frames, &v); err != nil {
		return v, &MismatchError{Reason: fmt.Sprintf("%s is no %v: %v", what, reflect.TypeFor[T](), err)}
	}
	return v, nil
}

// decodeAll decodes an answer of many values.
func decodeAll[T any](what string, a home.Answer, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	values, err := managed.Unpack(&wire.Reader{B: a.Args}, a.Value)
	if err != nil {
		return nil, err
	}
	vs := make([]T, len(values))
	for i, v := range values {
		if vs[i], err = decode[T](fmt.Sprintf("%s %d", what, i), v.Frames); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// encodeAll encodes many values.
func encodeAll[T any](what string, vs []T) ([]home.Value, error) {
	values := make([]home.Value, len(vs))
	for i, v := range vs {
		var err error
		if values[i], err = encode(fmt.Sprintf("%s %d", what, i), v); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// cell is what an object said of one of its values.
type cell struct {
	done    bool // what was asked for is
	found   bool
	version uint64
	frames  [][]byte
}

func readCell(a home.Answer, err error) (cell, error) {
	if err != nil {
		return cell{}, err
	}
	in := wire.Reader{B: a.Args}
	c := cell{done: in.Uvarint() == 1, found: in.Uvarint() == 1, version: in.Uvarint()}
	if c.found && in.Err == nil {
		var values []home.Value
		if values, in.Err = managed.Unpack(&in, a.Value); in.Err == nil && len(values) == 1 {
			c.frames = values[0].Frames
		}
	}
	return c, in.Err
}

// place is where a value is: what it takes to read and write it.
type place[T any] struct {
	what string
	get  func() (cell, error)
	set  func(version uint64, v home.Value) (cell, error) // if it has the version
	swap func(old, v home.Value) (cell, error)            // if it is old
}

// update has fn change a value, again whenever somebody has written it
// meanwhile.
func (p place[T]) update(fn func(old T, ok bool) (T, error)) (T, error) {
	var none T
	c, err := p.get()
	for err == nil {
		var v T
		if c.found {
			if v, err = decode[T](p.what, c.frames); err != nil {
				return none, err
			}
		}
		if v, err = fn(v, c.found); err != nil {
			return none, err
		}
		var value home.Value
		if value, err = encode(p.what, v); err != nil {
			return none, err
		}
		if c, err = p.set(c.version, value); err == nil && c.done {
			return v, nil
		}
	}
	return none, err
}

// compareAndSet writes v if the value is old. The home compares bytes; when
// these differ the values may still be the same, maps in another order, say.
func (p place[T]) compareAndSet(old, v T) (bool, error) {
	before, err := encode("the old value", old)
	if err != nil {
		return false, err
	}
	after, err := encode("the new value", v)
	if err != nil {
		return false, err
	}
	c, err := p.swap(before, after)
	for err == nil && !c.done && c.found {
		var is T
		if is, err = decode[T](p.what, c.frames); err != nil {
			return false, err
		}
		if !reflect.DeepEqual(is, old) {
			return false, nil
		}
		c, err = p.set(c.version, after)
	}
	return c.done, err
}

// uvarints makes arguments of numbers.
func uvarints(ns ...uint64) []byte {
	b := make([]byte, 0, 16)
	for _, n := range ns {
		b = binary.AppendUvarint(b, n)
	}
	return b
}
