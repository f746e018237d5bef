package fiber

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// List is a list that lives in a manager and that processes share. It is made
// by NewList and travels as (part of) an argument, a result, or a value of
// another managed object; all copies are the same list. Any goroutine may use
// it.
//
// Indices begin at 0; one that is not there is an error that names the list's
// length. Values are copies, methods are single steps, and errors are the same,
// as those of a Dict.
type List[T any] struct{ sequence[listType, T] }

type listType struct{}

func (listType) objectType() (string, string, byte) { return "list", "List", 'L' }

// NewList makes a list in a manager, with what is in it at first.
func NewList[T any](ctx context.Context, m *Manager, initial ...T) (*List[T], error) {
	s, err := newSequence[listType](ctx, m, "NewList", initial)
	if err != nil {
		return nil, err
	}
	return &List[T]{s}, nil
}

// Append adds a value at the end.
func (l *List[T]) Append(ctx context.Context, v T) error { return l.Extend(ctx, []T{v}) }

// Extend adds values at the end, in their order, in one step.
func (l *List[T]) Extend(ctx context.Context, vs []T) error {
	values, err := encodeAll("value", vs)
	if err != nil {
		return err
	}
	return do(ctx, l, builtin.ListAppend, values)
}

// Insert puts a value before the one at an index, which may be the length.
func (l *List[T]) Insert(ctx context.Context, index int, v T) error {
	value, err := encode("the value", v)
	if err == nil {
		err = isIndex(index)
	}
	if err != nil {
		return err
	}
	return do(ctx, l, builtin.ListInsert, builtin.ListSpan{Index: index, Values: []object.Value{value}})
}

// Pop takes the value at an index out and gives it.
func (l *List[T]) Pop(ctx context.Context, index int) (T, error) {
	return l.at(ctx, builtin.ListPop, index)
}

// Delete takes the value at an index out.
func (l *List[T]) Delete(ctx context.Context, index int) error {
	if err := isIndex(index); err != nil {
		return err
	}
	return do(ctx, l, builtin.ListDelete, index)
}

// Remove takes the first value out that has the encoding of v, and says
// whether there was one.
func (l *List[T]) Remove(ctx context.Context, v T) (bool, error) {
	value, err := encode("the value", v)
	if err != nil {
		return false, err
	}
	return settle(ctx, l, builtin.ListRemove, value)
}

// Clear takes all values out.
func (l *List[T]) Clear(ctx context.Context) error {
	return do(ctx, l, builtin.ListClear, object.None{})
}

// sequence is what lists, arrays and values have in common.
type sequence[N objectType, T any] struct{ builtinObject[N] }

func newSequence[N objectType, T any](ctx context.Context, m *Manager, constructor string, initial []T) (s sequence[N, T], err error) {
	if err := travels[T](constructor, "its values"); err != nil {
		return s, err
	}
	values, err := encodeAll("value", initial)
	if err != nil {
		return s, err
	}
	what := builtin.Making{Kind: builtin.KindList, Values: values}
	first := object.Fitting(values) // the message that makes it has room for few
	if first < len(values) {
		what.Values = nil
	}
	if s.builtinObject, err = makeObject[N](ctx, m, what); err != nil || first == len(values) {
		return s, err
	}
	return s, do(ctx, &s, builtin.ListAppend, values)
}

// Get gives the value at an index.
func (s *sequence[N, T]) Get(ctx context.Context, index int) (T, error) {
	return s.at(ctx, builtin.ListGet, index)
}

// Set replaces the value at an index.
func (s *sequence[N, T]) Set(ctx context.Context, index int, v T) error {
	return s.setFrom(ctx, index, []T{v})
}

// Len is the number of values.
func (s *sequence[N, T]) Len(ctx context.Context) (int, error) {
	return settle(ctx, s, builtin.ListLen, object.None{})
}

// Slice gives the values at the indices lo to hi-1.
func (s *sequence[N, T]) Slice(ctx context.Context, lo, hi int) ([]T, error) {
	if err := isIndex(min(lo, hi)); err != nil {
		return nil, err
	}
	values, err := settle(ctx, s, builtin.ListSlice, builtin.ListPart{Lo: lo, Hi: hi})
	return decodeAll[T]("value", values, err)
}

// All gives all values with their indices, as they are at the time of the
// call: the loop over them asks for nothing more, and may change the list.
func (s *sequence[N, T]) All(ctx context.Context) (iter.Seq2[int, T], error) {
	values, err := settle(ctx, s, builtin.ListAll, object.None{})
	vs, err := decodeAll[T]("value", values, err)
	if err != nil {
		return nil, err
	}
	return slices.All(vs), nil
}

// CompareAndSet sets the value at an index if it is old, as reflect.DeepEqual
// says or since it is the same managed object, and says whether it did.
func (s *sequence[N, T]) CompareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	p, err := s.place(ctx, index)
	if err != nil {
		return false, err
	}
	return compareAndSet(p, old, v)
}

// Update sets the value at an index to what fn makes of it, and gives that. fn
// runs here; if somebody else has written there meanwhile, it runs again, with
// the new value (see Dict.Update). An error of fn is given back, and nothing
// has changed.
func (s *sequence[N, T]) Update(ctx context.Context, index int, fn func(old T) (T, error)) (T, error) {
	p, err := s.place(ctx, index)
	if err != nil {
		var none T
		return none, err
	}
	return update(p, func(old T, _ bool) (T, error) { return fn(old) })
}

func isIndex(i int) error {
	if i < 0 {
		return fmt.Errorf("fiber: there is no index %d; indices begin at 0", i)
	}
	return nil
}

func (s *sequence[N, T]) at(ctx context.Context, op object.Op[int, builtin.Cell], index int) (v T, err error) {
	if err := isIndex(index); err != nil {
		return v, err
	}
	v, _, err = decodeCell[T](settle(ctx, s, op, index))
	return v, err
}

func (s *sequence[N, T]) setFrom(ctx context.Context, index int, vs []T) error {
	values, err := encodeAll("value", vs)
	if err == nil {
		err = isIndex(index)
	}
	if err != nil {
		return err
	}
	return do(ctx, s, builtin.ListSet, builtin.ListSpan{Index: index, Values: values})
}

func (s *sequence[N, T]) place(ctx context.Context, index int) (place, error) {
	return place{
		func() (builtin.Cell, error) { return settle(ctx, s, builtin.ListGet, index) },
		func(version uint64, v object.Value) (builtin.Cell, error) {
			return settle(ctx, s, builtin.ListSetIf, builtin.ListWrite{Index: index, Version: version, Value: v})
		},
		func(old, v object.Value) (builtin.Cell, error) {
			return settle(ctx, s, builtin.ListSwap, builtin.ListExchange{Index: index, Old: old, New: v})
		},
	}, isIndex(index)
}
