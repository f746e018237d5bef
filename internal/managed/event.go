package managed

import (
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/home"
)

// The operations of an event.
const (
	EventSet   byte = eventOps + iota // it has happened: all who wait go on
	EventClear                        // it has not
	EventIsSet                        // whether it has
	EventWait                         // wait until it has
)

// event is something that happens, or has happened.
type event struct {
	mu      sync.Mutex
	gone    bool
	set     bool
	waiting []*home.Request
}

// Serve takes a request.
func (e *event) Serve(r *home.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.gone:
		r.Fail(home.Gone, "")
	case r.Op == EventSet:
		e.set = true
		for _, w := range e.waiting {
			w.Reply(nil, nil)
		}
		e.waiting = nil
		r.Reply(nil, nil)
	case r.Op == EventClear:
		e.set = false
		r.Reply(nil, nil)
	case r.Op == EventIsSet:
		number(r, int(bit(e.set)))
	case r.Op == EventWait && e.set:
		r.Reply(nil, nil)
	case r.Op == EventWait:
		e.waiting = append(e.waiting, r)
	default:
		r.Malformed()
	}
}

// GiveUp takes a waiting request out.
func (e *event) GiveUp(r *home.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = slices.DeleteFunc(e.waiting, func(w *home.Request) bool { return w == r })
	r.Fail(home.GivenUp, "")
}

// Left has nothing to do: what has happened stays so.
func (e *event) Left(*home.Peer, bool) {}

// Drop tells those who wait.
func (e *event) Drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	for _, w := range e.waiting {
		w.Fail(home.Gone, "")
	}
	e.waiting = nil
}
