package fiber

import "context"

// Array is a fixed number of values that live in a manager and that processes
// share. It is made by NewArray and travels as (part of) an argument, a result,
// or a value of another managed object; all copies are the same array. Any
// goroutine may use it.
//
// Each value is kept by itself, at some hundred bytes: an array is for values
// that processes change one by one, not for large matrices. Indices, values,
// methods and errors are as those of a List.
type Array[T any] struct{ sequence[arrayType, T] }

type arrayType struct{}

func (arrayType) objectType() (string, string, byte) { return "array", "Array", 'A' }

// NewArray makes an array in a manager, as long as values and with these in
// it; make([]T, n) gives n zeros.
func NewArray[T any](ctx context.Context, m *Manager, values []T) (*Array[T], error) {
	s, err := newSequence[arrayType](ctx, m, "NewArray", values)
	if err != nil {
		return nil, err
	}
	return &Array[T]{s}, nil
}

// SetSlice replaces the values from index lo on, in one step, as many as there
// are in vs.
func (a *Array[T]) SetSlice(ctx context.Context, lo int, vs []T) error {
	return a.setFrom(ctx, lo, vs)
}
