package fiber

import (
	"context"
	"iter"

	"github.com/fiber-go/fiber/internal/managed"
)

// Array is a fixed number of values that live in a manager and that processes
// share. It is made by NewArray and travels as (part of) an argument, a result,
// or a value of another managed object; all copies are the same array. Any
// goroutine may use it.
//
// Each value is kept by itself, at some hundred bytes: an array is for values
// that processes change one by one, not for large matrices. Indices, values,
// methods and errors are as those of a List.
type Array[T any] struct{ object[arrayNoun] }

type arrayNoun struct{}

func (arrayNoun) noun() (string, byte) { return "array", 'A' }

// NewArray makes an array in a manager, as long as values and with these in
// it; make([]T, n) gives n zeros.
func NewArray[T any](ctx context.Context, m *Manager, values []T) (*Array[T], error) {
	o, err := newList[arrayNoun](ctx, m, "NewArray", values)
	if err != nil {
		return nil, err
	}
	return &Array[T]{o}, nil
}

// Get gives the value at an index.
func (a *Array[T]) Get(ctx context.Context, index int) (T, error) {
	return valueAt[T](ctx, &a.object, managed.ListGet, index)
}

// Set replaces the value at an index.
func (a *Array[T]) Set(ctx context.Context, index int, v T) error {
	return setFrom(ctx, &a.object, index, []T{v})
}

// Len is the number of values.
func (a *Array[T]) Len(ctx context.Context) (int, error) {
	return a.number(ctx, managed.ListLen, nil)
}

// Slice gives the values at the indices lo to hi-1.
func (a *Array[T]) Slice(ctx context.Context, lo, hi int) ([]T, error) {
	return sliceOf[T](ctx, &a.object, lo, hi)
}

// SetSlice replaces the values from index lo on, in one step, as many as there
// are in vs.
func (a *Array[T]) SetSlice(ctx context.Context, lo int, vs []T) error {
	return setFrom(ctx, &a.object, lo, vs)
}

// All gives all values with their indices, as they are at the time of the
// call.
func (a *Array[T]) All(ctx context.Context) (iter.Seq2[int, T], error) {
	return allOf[T](ctx, &a.object)
}

// CompareAndSet sets the value at an index if it is old; see
// List.CompareAndSet.
func (a *Array[T]) CompareAndSet(ctx context.Context, index int, old, v T) (bool, error) {
	return swapAt(ctx, &a.object, index, old, v)
}

// Update sets the value at an index to what fn makes of it; see List.Update.
func (a *Array[T]) Update(ctx context.Context, index int, fn func(old T) (T, error)) (T, error) {
	return updateAt(ctx, &a.object, index, fn)
}
