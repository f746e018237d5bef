package managed

import "github.com/fiber-go/fiber/internal/home"

// The operations of an event.
const (
	EventSet   home.Op[home.None, home.None] = eventOps + iota // it has happened: all who wait go on
	EventClear home.Op[home.None, home.None] = eventOps + iota // it has not
	EventIsSet home.Op[home.None, bool]      = eventOps + iota // whether it has
	EventWait  home.Op[home.None, home.None] = eventOps + iota // wait until it has
)

var eventTable = home.Ops(
	home.On(EventSet, func(e *event, r home.Asked[home.None], _ home.None) {
		e.set = true
		for _, w := range e.waiting {
			w.r.Reply(nil, nil)
		}
		e.waiting = nil
		r.Reply(home.None{})
	}),
	home.On(EventClear, func(e *event, r home.Asked[home.None], _ home.None) {
		e.set = false
		r.Reply(home.None{})
	}),
	home.On(EventIsSet, func(e *event, r home.Asked[bool], _ home.None) { r.Reply(e.set) }),
	home.On(EventWait, func(e *event, r home.Asked[home.None], _ home.None) {
		if e.set {
			r.Reply(home.None{})
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
func (e *event) Serve(r *home.Request) { serve(&e.base, e, eventTable, r) }
