package fiber

import (
	"context"
	"iter"

	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Value is a single value that lives in a manager and that processes share.
// Create it with NewValue. It travels as (part of) an argument, a result, or a
// value of another managed object; all copies are the same Value. Any goroutine
// may use it.
//
// As with a Dict, what goes in and comes out is a copy, and each method is one
// step. The errors are a Dict's, too.
type Value[T any] struct{ p proxy }

// NewValue makes a value in a manager.
func NewValue[T any](ctx context.Context, m *Manager, v T) (*Value[T], error) {
	return newSequence[Value[T]](ctx, m, "NewValue", []T{v})
}

// Get returns the value.
func (v *Value[T]) Get(ctx context.Context) (T, error) { return sequence[T]{v}.get(ctx, 0) }

// Set replaces the value.
func (v *Value[T]) Set(ctx context.Context, to T) error { return sequence[T]{v}.set(ctx, 0, to) }

// CompareAndSet replaces the value if it equals old; see List.CompareAndSet.
func (v *Value[T]) CompareAndSet(ctx context.Context, old, to T) (bool, error) {
	return sequence[T]{v}.compareAndSet(ctx, 0, old, to)
}

// Update replaces the value by what fn returns for it, and returns the new one;
// see List.Update.
func (v *Value[T]) Update(ctx context.Context, fn func(old T) (T, error)) (T, error) {
	return sequence[T]{v}.update(ctx, 0, fn)
}

// Watch yields the value, and then each newer one as soon as it is set. Of those that
// are set while the loop is at work it yields only the latest, so that a slow reader
// is never behind. A value that is set to what it was is a newer one. When ctx ends, or
// the manager, the error comes last.
func (v *Value[T]) Watch(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for version := uint64(0); ; {
			c, err := read(ctx, v, builtin.ListNewer, builtin.ListWrite{Version: version})
			version = c.Version
			x, _, err := decodeCell[T](c, err)
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// MarshalBinary encodes a reference to the value, which does not keep it alive; see
// Proxy.MarshalBinary.
func (v *Value[T]) MarshalBinary() ([]byte, error) { return marshalProxy(v) }

// UnmarshalBinary attaches to the value that a reference names.
func (v *Value[T]) UnmarshalBinary(b []byte) error { return unmarshalProxy(v, b) }

func (v *Value[T]) held() (*proxy, string) {
	if v == nil {
		return nil, "Value"
	}
	return &v.p, "Value"
}
