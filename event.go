package fiber

import (
	"context"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Event is a flag that processes set and wait for. It lives in a manager.
// Create it with NewEvent. It travels as (part of) an argument, a result, or a
// value of another managed object; all copies are the same event. Any goroutine
// may use it. An event stays set when the process that set it dies.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Event struct{ p proxy }

// NewEvent makes an event in a manager. It is not set at first.
func NewEvent(ctx context.Context, m *Manager) (*Event, error) {
	return newObject[Event](ctx, m, builtin.Making{Kind: builtin.KindEvent})
}

// Set sets the event: all waiting calls of Wait return.
func (e *Event) Set(ctx context.Context) error { return do(ctx, e, builtin.EventSet, object.None{}) }

// Clear clears the event: from now on, Wait waits for the next Set.
func (e *Event) Clear(ctx context.Context) error {
	return do(ctx, e, builtin.EventClear, object.None{})
}

// IsSet reports whether the event is set.
func (e *Event) IsSet(ctx context.Context) (bool, error) {
	return read(ctx, e, builtin.EventIsSet, object.None{})
}

// Wait waits until the event is set, or until ctx ends.
func (e *Event) Wait(ctx context.Context) error {
	_, err := read(ctx, e, builtin.EventWait, object.None{})
	return err
}

// MarshalBinary encodes a reference to the event, which does not keep it alive; see
// Proxy.MarshalBinary.
func (e *Event) MarshalBinary() ([]byte, error) { return marshalProxy(e) }

// UnmarshalBinary attaches to the event that a reference names.
func (e *Event) UnmarshalBinary(b []byte) error { return unmarshalProxy(e, b) }

func (e *Event) held() (*proxy, string) {
	if e == nil {
		return nil, "Event"
	}
	return &e.p, "Event"
}
