package fiber

import "context"

// Value is a single value that lives in a manager and that processes share. It
// is made by NewValue and travels as (part of) an argument, a result, or a
// value of another managed object; all copies are the same. Any goroutine may
// use it. Values are copies, methods are single steps, and errors are the same,
// as those of a Dict.
type Value[T any] struct{ s sequence[valueType, T] }

type valueType struct{}

func (valueType) objectType() (string, string, byte) { return "value", "Value", 'V' }

// NewValue makes a value in a manager.
func NewValue[T any](ctx context.Context, m *Manager, v T) (*Value[T], error) {
	s, err := newSequence[valueType](ctx, m, "NewValue", []T{v})
	if err != nil {
		return nil, err
	}
	return &Value[T]{s}, nil
}

// Get gives the value.
func (v *Value[T]) Get(ctx context.Context) (T, error) { return v.s.Get(ctx, 0) }

// Set replaces the value.
func (v *Value[T]) Set(ctx context.Context, to T) error { return v.s.Set(ctx, 0, to) }

// CompareAndSet sets the value if it is old; see List.CompareAndSet.
func (v *Value[T]) CompareAndSet(ctx context.Context, old, to T) (bool, error) {
	return v.s.CompareAndSet(ctx, 0, old, to)
}

// Update sets the value to what fn makes of it; see List.Update.
func (v *Value[T]) Update(ctx context.Context, fn func(old T) (T, error)) (T, error) {
	return v.s.Update(ctx, 0, fn)
}

// MarshalBinary gives the value's name.
func (v *Value[T]) MarshalBinary() ([]byte, error) { return v.s.MarshalBinary() }

// UnmarshalBinary attaches to the value of a name.
func (v *Value[T]) UnmarshalBinary(b []byte) error { return v.s.UnmarshalBinary(b) }

func (v *Value[T]) used() (h *handle, name, typ string) { return v.s.used() }
