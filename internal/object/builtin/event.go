package builtin

import "github.com/fiber-go/fiber/internal/object"

// The operations of an event.
const (
	EventSet   object.Op[object.None, object.None] = eventOps + iota // it has happened: all who wait go on
	EventClear object.Op[object.None, object.None] = eventOps + iota // it has not
	EventIsSet object.Op[object.None, bool]        = eventOps + iota // whether it has
	EventWait  object.Op[object.None, object.None] = eventOps + iota // wait until it has
)

var eventTable = object.Ops(
	object.On(EventSet, func(e *event, r object.Asked[object.None], _ object.None) {
		e.set = true
		for _, w := range e.waiting {
			w.r.Reply(nil, nil)
		}
		e.waiting = nil
		r.Reply(object.None{})
	}),
	object.On(EventClear, func(e *event, r object.Asked[object.None], _ object.None) {
		e.set = false
		r.Reply(object.None{})
	}),
	object.On(EventIsSet, func(e *event, r object.Asked[bool], _ object.None) { r.Reply(e.set) }),
	object.On(EventWait, func(e *event, r object.Asked[object.None], _ object.None) {
		if e.set {
			r.Reply(object.None{})
		} else {
			e.waiting.add(r.Request)
		}
	}),
)

// event is something that happens, or has happened.
type event struct {
	base
	set bool
}

// Serve takes a request.
func (e *event) Serve(r *object.Request) { serve(&e.base, e, eventTable, r) }
