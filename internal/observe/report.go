package observe

import (
	"errors"
	"iter"
	"sync/atomic"

	"github.com/fiber-go/fiber/event"
)

// Settings say what is to be written of a run, and where it is shown.
type Settings struct {
	Report, Trace string // paths, "" for none
	Dashboard     string // an address, "" for none

	Events                               func() iter.Seq2[event.Event, error] // of the whole run
	Program, Backend, Machine, GoVersion string
}

// reporter begins to write what the settings say, and returns what waits for the end of that.
type reporter func(s Settings) (end func(runErr string), err error)

var registered atomic.Pointer[reporter]

// Register has Report call start. A package that the program imports calls it.
func Register(start func(s Settings) (end func(runErr string), err error)) {
	registered.Store((*reporter)(&start))
}

// Report begins to write what the settings say. The hub's last event ends that.
func Report(s Settings) (end func(runErr string), err error) {
	if start := registered.Load(); start != nil {
		return (*start)(s)
	}
	name, do := "FIBER_REPORT", "write"
	switch {
	case s.Report != "":
	case s.Trace != "":
		name = "FIBER_TRACE"
	default:
		name, do = "FIBER_DASHBOARD", "serve"
	}
	return nil, errors.New("fiber: " + name + " is set, but the program has nothing to " + do + ` it with: import _ "github.com/fiber-go/fiber/dashboard"`)
}
