package builtin

import "github.com/fiber-go/fiber/internal/object"

// The operations of an event.
const (
	EventSet   object.Op[object.None, object.None] = eventOps + iota // the event has happened: all waiting requests are answered
	EventClear object.Op[object.None, object.None] = eventOps + iota // the event has not happened
	EventIsSet object.Op[object.None, bool]        = eventOps + iota // whether the event has happened
	EventWait  object.Op[object.None, object.None] = eventOps + iota // wait until the event has happened
)

var eventTable = object.Ops(
	object.On(EventSet, func(e *event, r object.Asked[object.None], _ object.None) {
		e.set = true
		for _, w := range e.waiting {
			object.Asked[object.None]{Request: w.r}.Reply(object.None{})
		}
		e.waiting = nil
		r.Reply(object.None{})
	}),
	object.On(EventClear, func(e *event, r object.Asked[object.None], _ object.None) {
		e.set = false
		r.Reply(object.None{})
	}),
	object.On(EventIsSet, func(e *event, r object.Asked[bool], _ object.None) { r.Reply(e.set) }),
	object.Awaited(EventWait, func(e *event, r object.Asked[object.None], _ object.None) {
		if e.set {
			r.Reply(object.None{})
		} else {
			e.waiting.add(r.Request)
		}
	}),
)

// event is set once something has happened, until it is cleared.
type event struct {
	base
	set bool
}

// Serve takes a request.
func (e *event) Serve(r *object.Request) { serve(&e.base, e, eventTable, r) }
