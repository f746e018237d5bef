package fiber

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// List is a list that lives in a manager and that processes share. Create it
// with NewList. It travels as (part of) an argument, a result, or a value of
// another managed object; all copies are the same list. Any goroutine may use
// it.
//
// Indices begin at 0. An index out of range is an error that names the list's
// length. As with a Dict, what goes in and comes out is a copy, and each method
// is one step. The errors are a Dict's, too.
type List[T any] struct{ sequence[listType, T] }

type listType struct{}

func (listType) objectType() (string, string, byte) { return "list", "List", 'L' }

// NewList makes a list in a manager, with the initial values.
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

// Insert inserts a value before the one at an index. If the index is the list's
// length, the value goes to the end.
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

// Pop removes the value at an index and returns it.
func (l *List[T]) Pop(ctx context.Context, index int) (T, error) {
	return l.at(ctx, builtin.ListPop, index)
}

// Delete removes the value at an index.
func (l *List[T]) Delete(ctx context.Context, index int) error {
	if err := isIndex(index); err != nil {
		return err
	}
	return do(ctx, l, builtin.ListDelete, index)
}

// Remove removes the first value with the same encoding as v, and reports
// whether there was one.
func (l *List[T]) Remove(ctx context.Context, v T) (bool, error) {
	value, err := encode("the value", v)
	if err != nil {
		return false, err
	}
	return settle(ctx, l, builtin.ListRemove, value)
}

// Clear removes all values.
func (l *List[T]) Clear(ctx context.Context) error {
	return do(ctx, l, builtin.ListClear, object.None{})
}

// sequence is the common part of lists, arrays and values.
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
	first := object.Fitting(values) // how many fit into the message that makes the list
	if first < len(values) {
		what.Values = nil
	}
	if s.builtinObject, err = makeObject[N](ctx, m, what); err != nil || first == len(values) {
		return s, err
	}
	return s, do(ctx, &s, builtin.ListAppend, values)
}

// Get returns the value at an index.
func (s *sequence[N, T]) Get(ctx context.Context, index int) (T, error) {
	return s.at(ctx, builtin.ListGet, index)
}

// Set replaces the value at an index.
func (s *sequence[N, T]) Set(ctx context.Context, index int, v T) error {
	return s.setFrom(ctx, index, []T{v})
}

// Len returns the number of values.
func (s *sequence[N, T]) Len(ctx context.Context) (int, error) {
	return settle(ctx, s, builtin.ListLen, object.None{})
}

// Slice returns the values at the indices lo to hi-1.
func (s *sequence[N, T]) Slice(ctx context.Context, lo, hi int) ([]T, error) {
	if err := isIndex(min(lo, hi)); err != nil {
		return nil, err
	}
	values, err := settle(ctx, s, builtin.ListSlice, builtin.ListPart{Lo: lo, Hi: hi})
	return decodeAll[T]("value", values, err)
}

// All returns all values with their indices, as they are at the time of the
// call. The loop over them sends no requests, and may change the list.
func (s *sequence[N, T]) All(ctx context.Context) (iter.Seq2[int, T], error) {
	values, err := settle(ctx, s, builtin.ListAll, object.None{})
	vs, err := decodeAll[T]("value", values, err)
	if err != nil {
		return nil, err
	}
	return slices.All(vs), nil
}

// CompareAndSet replaces the value at an index by v if it equals old, and
// reports whether it did. Values are equal by reflect.DeepEqual; managed
// objects are equal if they are the same one.
func (s *sequence[N, T]) CompareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	p, err := s.place(ctx, index)
	if err != nil {
		return false, err
	}
	return compareAndSet(p, old, v)
}

// Update replaces the value at an index by what fn returns for it, and returns
// the new value.
// fn runs in this process. If the value was written meanwhile, fn runs again
// with the new one; see Dict.Update. If fn returns an error, Update returns it
// and changes nothing.
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

// Array is a fixed number of values that live in a manager and that processes
// share. Create it with NewArray. It travels as (part of) an argument, a
// result, or a value of another managed object; all copies are the same array.
// Any goroutine may use it.
//
// Each value is kept by itself and costs some hundred bytes: an array is for
// values that processes change one by one, not for large matrices. Indices,
// values, methods and errors are as with a List.
type Array[T any] struct{ sequence[arrayType, T] }

type arrayType struct{}

func (arrayType) objectType() (string, string, byte) { return "array", "Array", 'A' }

// NewArray makes an array in a manager that contains the given values. To make
// one of n zeros, pass make([]T, n).
func NewArray[T any](ctx context.Context, m *Manager, values []T) (*Array[T], error) {
	s, err := newSequence[arrayType](ctx, m, "NewArray", values)
	if err != nil {
		return nil, err
	}
	return &Array[T]{s}, nil
}

// SetSlice replaces len(vs) values, from index lo on, in one step.
func (a *Array[T]) SetSlice(ctx context.Context, lo int, vs []T) error {
	return a.setFrom(ctx, lo, vs)
}
