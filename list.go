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
// Indices begin at 0; negative ones count from the end, so that -1 is the last value's.
// An index out of range is an error that names the list's length. As with a Dict, what goes in and comes out is a copy, and each method
// is one step. The errors are a Dict's, too.
type List[T any] struct{ p proxy }

// NewList makes a list in a manager, with the initial values.
func NewList[T any](ctx context.Context, m *Manager, initial ...T) (*List[T], error) {
	return newSequence[List[T]](ctx, m, "NewList", initial)
}

// Append adds a value at the end.
func (l *List[T]) Append(ctx context.Context, v T) error { return l.Extend(ctx, []T{v}) }

// Extend adds values at the end, in their order, in one step.
func (l *List[T]) Extend(ctx context.Context, vs []T) error {
	return sequence[T]{l}.write(ctx, builtin.End, builtin.End, vs...)
}

// Insert inserts a value before the one at an index, which for -1 is the last one. If
// the index is the list's length, the value goes to the end.
func (l *List[T]) Insert(ctx context.Context, index int, v T) error {
	return sequence[T]{l}.write(ctx, index, index, v)
}

// Pop removes the value at an index and returns it.
func (l *List[T]) Pop(ctx context.Context, index int) (v T, err error) {
	if err := isIndex(index); err != nil {
		return v, err
	}
	values, err := settle(ctx, l, builtin.ListSplice, builtin.ListPart{Lo: index, Hi: builtin.Behind(index, 1)})
	vs, err := decodeAll[T]("a value", values, err)
	if err != nil {
		return v, err
	}
	return vs[0], nil
}

// Delete removes the value at an index.
func (l *List[T]) Delete(ctx context.Context, index int) error {
	return sequence[T]{l}.write(ctx, index, builtin.Behind(index, 1))
}

// Remove removes the first value with the same encoding as v, and reports
// whether there was one.
func (l *List[T]) Remove(ctx context.Context, v T) (bool, error) {
	value, err := encode(ctx, "the value", v)
	if err != nil {
		return false, err
	}
	return settle(ctx, l, builtin.ListRemove, value)
}

// Clear removes all values.
func (l *List[T]) Clear(ctx context.Context) error {
	return sequence[T]{l}.write(ctx, 0, builtin.End)
}

// Get returns the value at an index.
func (l *List[T]) Get(ctx context.Context, index int) (T, error) {
	return sequence[T]{l}.get(ctx, index)
}

// Set replaces the value at an index.
func (l *List[T]) Set(ctx context.Context, index int, v T) error {
	return sequence[T]{l}.set(ctx, index, v)
}

// Len returns the number of values.
func (l *List[T]) Len(ctx context.Context) (int, error) { return sequence[T]{l}.len(ctx) }

// Slice returns the values at the indices lo to hi-1.
func (l *List[T]) Slice(ctx context.Context, lo, hi int) ([]T, error) {
	return sequence[T]{l}.slice(ctx, lo, hi)
}

// All returns all values with their indices, as they are at the time of the
// call. The loop over them sends no requests, and may change the list.
func (l *List[T]) All(ctx context.Context) (iter.Seq2[int, T], error) {
	return sequence[T]{l}.all(ctx)
}

// CompareAndSet replaces the value at an index by v if it equals old, and
// reports whether it did. Values are equal by reflect.DeepEqual; managed
// objects are equal if they are the same one.
func (l *List[T]) CompareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	return sequence[T]{l}.compareAndSet(ctx, index, old, v)
}

// Update replaces the value at an index by what fn returns for it, and returns
// the new value. fn runs in this process. If the value was written meanwhile, fn
// runs again with the new one; see Dict.Update. If fn returns an error, Update
// returns it and changes nothing.
func (l *List[T]) Update(ctx context.Context, index int, fn func(old T) (T, error)) (T, error) {
	return sequence[T]{l}.update(ctx, index, fn)
}

// MarshalBinary encodes a reference to the list, which does not keep it alive; see
// Proxy.MarshalBinary.
func (l *List[T]) MarshalBinary() ([]byte, error) { return marshalProxy(l) }

// UnmarshalBinary attaches to the list that a reference names.
func (l *List[T]) UnmarshalBinary(b []byte) error { return unmarshalProxy(l, b) }

func (l *List[T]) held() (*proxy, string) {
	if l == nil {
		return nil, "List"
	}
	return &l.p, "List"
}

// sequence is what lists, arrays and values have in common.
type sequence[T any] struct{ user }

func newSequence[S, T any, P proxyOf[S]](ctx context.Context, m *Manager, constructor string, initial []T) (*S, error) {
	if err := travels[T](constructor, "its values"); err != nil {
		return nil, err
	}
	values, err := encodeAll(ctx, "the value", initial)
	if err != nil {
		return nil, err
	}
	return newObject[S, P](ctx, m, builtin.Making{Kind: builtin.KindList, Values: values})
}

func (s sequence[T]) get(ctx context.Context, index int) (v T, err error) {
	if err := isIndex(index); err != nil {
		return v, err
	}
	v, _, err = decodeCell[T](read(ctx, s, builtin.ListGet, index))
	return v, err
}

func (s sequence[T]) set(ctx context.Context, index int, v T) error {
	return s.write(ctx, index, builtin.Behind(index, 1), v)
}

func (s sequence[T]) len(ctx context.Context) (int, error) {
	return read(ctx, s, builtin.ListLen, object.None{})
}

func (s sequence[T]) slice(ctx context.Context, lo, hi int) ([]T, error) {
	if err := isIndex(hi); err != nil {
		return nil, err
	}
	return s.part(ctx, lo, hi)
}

func (s sequence[T]) all(ctx context.Context) (iter.Seq2[int, T], error) {
	vs, err := s.part(ctx, 0, builtin.End)
	if err != nil {
		return nil, err
	}
	return slices.All(vs), nil
}

func (s sequence[T]) compareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	p, err := s.place(ctx, index)
	if err != nil {
		return false, err
	}
	return compareAndSet(ctx, p, old, v)
}

func (s sequence[T]) update(ctx context.Context, index int, fn func(old T) (T, error)) (T, error) {
	if fn == nil {
		return *new(T), errNilFunc(ctx, "Update")
	}
	p, err := s.place(ctx, index)
	if err != nil {
		return *new(T), err
	}
	return update(ctx, p, func(old T, _ []object.Value) (T, error) { return fn(old) })
}

func isIndex(i int) error {
	if i > builtin.End || i < -builtin.End {
		return fmt.Errorf("fiber: there is no index %d; no list is longer than %d", i, builtin.End)
	}
	return nil
}

// part asks for the values lo to hi-1.
func (s sequence[T]) part(ctx context.Context, lo, hi int) ([]T, error) {
	if err := isIndex(lo); err != nil {
		return nil, err
	}
	values, err := read(ctx, s, builtin.ListSlice, builtin.ListPart{Lo: lo, Hi: hi})
	return decodeAll[T]("a value", values, err)
}

// write replaces the values lo to hi-1 by vs.
func (s sequence[T]) write(ctx context.Context, lo, hi int, vs ...T) error {
	values, err := encodeAll(ctx, "the value", vs)
	if err == nil {
		err = isIndex(lo)
	}
	if err != nil {
		return err
	}
	_, err = settle(ctx, s, builtin.ListSplice, builtin.ListPart{Lo: lo, Hi: hi, Quiet: true, Values: values})
	return err
}

func (s sequence[T]) place(ctx context.Context, index int) (place, error) {
	return place{
		func() (builtin.Cell, error) { return read(ctx, s, builtin.ListGet, index) },
		func(version uint64, v object.Value) (builtin.Cell, error) {
			return settle(ctx, s, builtin.ListSetIf, builtin.ListWrite{Index: index, Version: version, Value: v})
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
type Array[T any] struct{ p proxy }

// NewArray makes an array in a manager that contains the given values. To make
// one of n zeros, pass make([]T, n).
func NewArray[T any](ctx context.Context, m *Manager, values []T) (*Array[T], error) {
	return newSequence[Array[T]](ctx, m, "NewArray", values)
}

// SetSlice replaces len(vs) values, from index lo on, in one step.
func (a *Array[T]) SetSlice(ctx context.Context, lo int, vs []T) error {
	if lo < 0 && lo+len(vs) > 0 {
		return fmt.Errorf("fiber: %d values from index %d on do not fit any array", len(vs), lo)
	}
	return sequence[T]{a}.write(ctx, lo, builtin.Behind(lo, len(vs)), vs...)
}

// Get returns the value at an index.
func (a *Array[T]) Get(ctx context.Context, index int) (T, error) {
	return sequence[T]{a}.get(ctx, index)
}

// Set replaces the value at an index.
func (a *Array[T]) Set(ctx context.Context, index int, v T) error {
	return sequence[T]{a}.set(ctx, index, v)
}

// Len returns the number of values.
func (a *Array[T]) Len(ctx context.Context) (int, error) { return sequence[T]{a}.len(ctx) }

// Slice returns the values at the indices lo to hi-1.
func (a *Array[T]) Slice(ctx context.Context, lo, hi int) ([]T, error) {
	return sequence[T]{a}.slice(ctx, lo, hi)
}

// All returns all values with their indices, as they are at the time of the
// call. The loop over them sends no requests, and may change the array.
func (a *Array[T]) All(ctx context.Context) (iter.Seq2[int, T], error) {
	return sequence[T]{a}.all(ctx)
}

// CompareAndSet replaces the value at an index by v if it equals old, and
// reports whether it did. Values are equal by reflect.DeepEqual; managed
// objects are equal if they are the same one.
func (a *Array[T]) CompareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	return sequence[T]{a}.compareAndSet(ctx, index, old, v)
}

// Update replaces the value at an index by what fn returns for it, and returns
// the new value. fn runs in this process. If the value was written meanwhile, fn
// runs again with the new one; see Dict.Update. If fn returns an error, Update
// returns it and changes nothing.
func (a *Array[T]) Update(ctx context.Context, index int, fn func(old T) (T, error)) (T, error) {
	return sequence[T]{a}.update(ctx, index, fn)
}

// MarshalBinary encodes a reference to the array, which does not keep it alive; see
// Proxy.MarshalBinary.
func (a *Array[T]) MarshalBinary() ([]byte, error) { return marshalProxy(a) }

// UnmarshalBinary attaches to the array that a reference names.
func (a *Array[T]) UnmarshalBinary(b []byte) error { return unmarshalProxy(a, b) }

func (a *Array[T]) held() (*proxy, string) {
	if a == nil {
		return nil, "Array"
	}
	return &a.p, "Array"
}
