package fiber

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/managed"
)

// List is a list that lives in a manager and that processes share. It is made
// by NewList and travels as (part of) an argument, a result, or a value of
// another managed object; all copies are the same list. Any goroutine may use
// it.
//
// Indices begin at 0; one that is not there is an error that names the list's
// length. Values are copies, methods are single steps, and errors are the same,
// as those of a Dict.
type List[T any] struct{ object[listNoun] }

type listNoun struct{}

func (listNoun) noun() (string, byte) { return "list", 'L' }

// NewList makes a list in a manager, with what is in it at first.
func NewList[T any](ctx context.Context, m *Manager, initial ...T) (*List[T], error) {
	o, err := newList[listNoun](ctx, m, "NewList", initial)
	if err != nil {
		return nil, err
	}
	return &List[T]{o}, nil
}

// newList makes a list or something like it.
func newList[N noun, T any](ctx context.Context, m *Manager, constructor string, initial []T) (none object[N], err error) {
	if err := travels[T](constructor, "its values"); err != nil {
		return none, err
	}
	values, err := encodeAll("value", initial)
	if err != nil {
		return none, err
	}
	n := home.Fitting(values) // the message that makes it has room for few
	if n < len(values) {
		n = 0
	}
	o, err := makeObject[N](ctx, m, managed.KindList, nil, values[:n]...)
	if err != nil || n == len(values) {
		return o, err
	}
	return o, o.do(ctx, managed.ListAppend, nil, values...)
}

// Append adds a value at the end.
func (l *List[T]) Append(ctx context.Context, v T) error { return l.Extend(ctx, []T{v}) }

// Extend adds values at the end, in their order, in one step.
func (l *List[T]) Extend(ctx context.Context, vs []T) error {
	values, err := encodeAll("value", vs)
	if err != nil {
		return err
	}
	return l.do(ctx, managed.ListAppend, nil, values...)
}

// Insert puts a value before the one at an index, which may be the length.
func (l *List[T]) Insert(ctx context.Context, index int, v T) error {
	value, err := encode("the value", v)
	if err != nil {
		return err
	}
	args, err := indices(index)
	if err != nil {
		return err
	}
	return l.do(ctx, managed.ListInsert, args, value)
}

// Get gives the value at an index.
func (l *List[T]) Get(ctx context.Context, index int) (T, error) {
	return valueAt[T](ctx, &l.object, managed.ListGet, index)
}

// Set replaces the value at an index.
func (l *List[T]) Set(ctx context.Context, index int, v T) error {
	return setFrom(ctx, &l.object, index, []T{v})
}

// Pop takes the value at an index out and gives it.
func (l *List[T]) Pop(ctx context.Context, index int) (T, error) {
	return valueAt[T](ctx, &l.object, managed.ListPop, index)
}

// Delete takes the value at an index out.
func (l *List[T]) Delete(ctx context.Context, index int) error {
	args, err := indices(index)
	if err != nil {
		return err
	}
	return l.do(ctx, managed.ListDelete, args)
}

// Remove takes the first value out that has the encoding of v, and says
// whether there was one.
func (l *List[T]) Remove(ctx context.Context, v T) (bool, error) {
	value, err := encode("the value", v)
	if err != nil {
		return false, err
	}
	return l.yes(ctx, managed.ListRemove, nil, value)
}

// Len is the number of values.
func (l *List[T]) Len(ctx context.Context) (int, error) {
	return l.number(ctx, managed.ListLen, nil)
}

// Slice gives the values at the indices lo to hi-1.
func (l *List[T]) Slice(ctx context.Context, lo, hi int) ([]T, error) {
	return sliceOf[T](ctx, &l.object, lo, hi)
}

// All gives all values with their indices, as they are at the time of the
// call: the loop over them asks for nothing more, and may change the list.
func (l *List[T]) All(ctx context.Context) (iter.Seq2[int, T], error) {
	return allOf[T](ctx, &l.object)
}

// Clear takes all values out.
func (l *List[T]) Clear(ctx context.Context) error { return l.do(ctx, managed.ListClear, nil) }

// CompareAndSet sets the value at an index if it is old, as reflect.DeepEqual
// says or since it is the same managed object, and says whether it did.
func (l *List[T]) CompareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	return swapAt(ctx, &l.object, index, old, v)
}

// Update sets the value at an index to what fn makes of it, and gives that. fn
// runs here; if somebody else has written there meanwhile, it runs again, with
// the new value (see Dict.Update). An error of fn is given back, and the list
// stays as it was.
func (l *List[T]) Update(ctx context.Context, index int, fn func(old T) (T, error)) (T, error) {
	return updateAt(ctx, &l.object, index, fn)
}

// What lists, arrays and values have in common.

// indices makes arguments of indices.
func indices(is ...int) ([]byte, error) {
	ns := make([]uint64, len(is))
	for k, i := range is {
		if i < 0 {
			return nil, fmt.Errorf("fiber: there is no index %d; indices begin at 0", i)
		}
		ns[k] = uint64(i)
	}
	return uvarints(ns...), nil
}

func valueAt[T any, N noun](ctx context.Context, o *object[N], op byte, index int) (v T, err error) {
	args, err := indices(index)
	if err != nil {
		return v, err
	}
	c, err := readCell(o.call(ctx, op, args))
	if err != nil {
		return v, err
	}
	return decode[T]("the value", c.frames)
}

func setFrom[T any, N noun](ctx context.Context, o *object[N], index int, vs []T) error {
	values, err := encodeAll("value", vs)
	if err != nil {
		return err
	}
	args, err := indices(index)
	if err != nil {
		return err
	}
	return o.do(ctx, managed.ListSet, args, values...)
}

func sliceOf[T any, N noun](ctx context.Context, o *object[N], lo, hi int) ([]T, error) {
	args, err := indices(lo, hi)
	if err != nil {
		return nil, err
	}
	a, err := o.call(ctx, managed.ListSlice, args)
	return decodeAll[T]("value", a, err)
}

func allOf[T any, N noun](ctx context.Context, o *object[N]) (iter.Seq2[int, T], error) {
	a, err := o.call(ctx, managed.ListAll, nil)
	vs, err := decodeAll[T]("value", a, err)
	if err != nil {
		return nil, err
	}
	return slices.All(vs), nil
}

func placeAt[T any, N noun](ctx context.Context, o *object[N], index int) (place[T], error) {
	args, err := indices(index)
	return place[T]{"the value",
		func() (cell, error) { return readCell(o.call(ctx, managed.ListGet, args)) },
		func(version uint64, v home.Value) (cell, error) {
			return readCell(o.call(ctx, managed.ListSetIf, append(slices.Clone(args), uvarints(version)...), v))
		},
		func(old, v home.Value) (cell, error) { return readCell(o.call(ctx, managed.ListSwap, args, old, v)) },
	}, err
}

func updateAt[T any, N noun](ctx context.Context, o *object[N], index int, fn func(T) (T, error)) (T, error) {
	p, err := placeAt[T](ctx, o, index)
	if err != nil {
		var none T
		return none, err
	}
	return p.update(func(old T, _ bool) (T, error) { return fn(old) })
}

func swapAt[T any, N noun](ctx context.Context, o *object[N], index int, old, v T) (bool, error) {
	p, err := placeAt[T](ctx, o, index)
	if err != nil {
		return false, err
	}
	return p.compareAndSet(old, v)
}
