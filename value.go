package fiber

import "context"

// Value is a single value that lives in a manager and that processes share.
// Create it with NewValue. It travels as (part of) an argument, a result, or a
// value of another managed object; all copies are the same Value. Any goroutine
// may use it.
//
// As with a Dict, what goes in and comes out is a copy, and each method is one
// step. The errors are a Dict's, too.
type Value[T any] struct{ s sequence[Value[T], T] }

// NewValue makes a value in a manager.
func NewValue[T any](ctx context.Context, m *Manager, v T) (*Value[T], error) {
	return newSequence[Value[T]](ctx, m, "NewValue", []T{v})
}

// Get returns the value.
func (v *Value[T]) Get(ctx context.Context) (T, error) { return v.s.Get(ctx, 0) }

// Set replaces the value.
func (v *Value[T]) Set(ctx context.Context, to T) error { return v.s.Set(ctx, 0, to) }

// CompareAndSet replaces the value if it equals old; see List.CompareAndSet.
func (v *Value[T]) CompareAndSet(ctx context.Context, old, to T) (bool, error) {
	return v.s.CompareAndSet(ctx, 0, old, to)
}

// Update replaces the value by what fn returns for it, and returns the new one;
// see List.Update.
func (v *Value[T]) Update(ctx context.Context, fn func(old T) (T, error)) (T, error) {
	return v.s.Update(ctx, 0, fn)
}

// MarshalBinary encodes a reference to the value.
func (v *Value[T]) MarshalBinary() ([]byte, error) { return v.s.MarshalBinary() }

// UnmarshalBinary attaches to the value that a reference names.
func (v *Value[T]) UnmarshalBinary(b []byte) error { return v.s.UnmarshalBinary(b) }

func (v *Value[T]) attach(h *handle) { v.s.attach(h) }

func (v *Value[T]) used() *handle { return v.s.used() }

func (v *Value[T]) typ() string { return v.s.typ() }
