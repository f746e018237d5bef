package fiber

import "context"

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
