package fiber

import (
	"context"

	"github.com/fiber-go/fiber/internal/managed"
)

// Value is a single value that lives in a manager and that processes share. It
// is made by NewValue and travels as (part of) an argument, a result, or a
// value of another managed object; all copies are the same. Any goroutine may
// use it. Values are copies, methods are single steps, and errors are the same,
// as those of a Dict.
type Value[T any] struct{ object[valueNoun] }

type valueNoun struct{}

func (valueNoun) noun() (string, byte) { return "value", 'V' }

// NewValue makes a value in a manager.
func NewValue[T any](ctx context.Context, m *Manager, v T) (*Value[T], error) {
	o, err := newList[valueNoun](ctx, m, "NewValue", []T{v})
	if err != nil {
		return nil, err
	}
	return &Value[T]{o}, nil
}

// Get gives the value.
func (v *Value[T]) Get(ctx context.Context) (T, error) {
	return valueAt[T](ctx, &v.object, managed.ListGet, 0)
}

// Set replaces the value.
func (v *Value[T]) Set(ctx context.Context, to T) error {
	return setFrom(ctx, &v.object, 0, []T{to})
}

// CompareAndSet sets the value if it is old; see List.CompareAndSet.
func (v *Value[T]) CompareAndSet(ctx context.Context, old, to T) (bool, error) {
	return swapAt(ctx, &v.object, 0, old, to)
}

// Update sets the value to what fn makes of it; see List.Update.
func (v *Value[T]) Update(ctx context.Context, fn func(old T) (T, error)) (T, error) {
	return updateAt(ctx, &v.object, 0, fn)
}
