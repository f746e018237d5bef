package fiber

import (
	"context"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Event is something that has happened or has not, which lives in a manager
// and which processes share. It is made by NewEvent and travels as (part of) an
// argument, a result, or a value of another managed object. Any goroutine may
// use it. What has happened stays so when the process that said so dies.
//
// Methods give ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Event struct{ builtinObject[eventType] }

type eventType struct{}

func (eventType) objectType() (string, string, byte) { return "event", "Event", 'E' }

// NewEvent makes an event in a manager, which has not happened.
func NewEvent(ctx context.Context, m *Manager) (*Event, error) {
	o, err := makeObject[eventType](ctx, m, builtin.Making{Kind: builtin.KindEvent})
	if err != nil {
		return nil, err
	}
	return &Event{o}, nil
}

// Set says that it has happened: all who wait go on.
func (e *Event) Set(ctx context.Context) error { return do(ctx, e, builtin.EventSet, object.None{}) }

// Clear says that it has not: who waits from now on waits for the next Set.
func (e *Event) Clear(ctx context.Context) error {
	return do(ctx, e, builtin.EventClear, object.None{})
}

// IsSet says whether it has happened.
func (e *Event) IsSet(ctx context.Context) (bool, error) {
	return settle(ctx, e, builtin.EventIsSet, object.None{})
}

// Wait waits until it has happened, or until ctx ends.
func (e *Event) Wait(ctx context.Context) error {
	_, err := ask(ctx, e, builtin.EventWait, object.None{}, nil)
	return err
}
