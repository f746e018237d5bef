package observe

import (
	"errors"
	"iter"
	"sync/atomic"

	"github.com/fiber-go/fiber/event"
)

// Settings say what is to be written of a run, and where it is shown.
type Settings struct {
	Report, Trace      string // paths, "" for none
	Dashboard, Metrics string // addresses, "" for none

	Events                               func() iter.Seq2[event.Event, error] // of the whole run
	Page                                 func(url string)                     // told of the dashboard's address
	Program, Backend, Machine, GoVersion string
}

// Reporter is a package, which the program may import, that does what some of the settings say.
type Reporter struct {
	pkg   string
	start atomic.Pointer[func(Settings) (func(string), error)]
}

// The packages with a Reporter. Pages are of a report, a trace or the dashboard.
var (
	Metrics = &Reporter{pkg: "metrics"}
	Pages   = &Reporter{pkg: "dashboard"}
)

// Register has Report call start, unless there are no settings for it. What start returns waits until all is done; the hub's last event
// has come by then.
func (r *Reporter) Register(start func(s Settings) (end func(runErr string), err error)) {
	r.start.Store(&start)
}

// Report begins what the settings say. The function that it returns ends that, with an error, too; it is nil if there is nothing to end.
func Report(s Settings) (end func(runErr string), err error) {
	var asked []*Reporter
	for _, setting := range []struct {
		value, name, does string
		by                *Reporter
	}{
		{s.Metrics, "FIBER_METRICS", "serve", Metrics},
		{s.Report, "FIBER_REPORT", "write", Pages},
		{s.Trace, "FIBER_TRACE", "write", Pages},
		{s.Dashboard, "FIBER_DASHBOARD", "serve", Pages},
	} {
		switch {
		case setting.value == "":
		case setting.by.start.Load() == nil:
			return nil, errors.New("fiber: " + setting.name + " is set, but the program has nothing to " + setting.does +
				` it with: import _ "github.com/fiber-go/fiber/` + setting.by.pkg + `"`)
		case len(asked) == 0 || asked[len(asked)-1] != setting.by:
			asked = append(asked, setting.by)
		}
	}
	for _, r := range asked {
		ends, err := (*r.start.Load())(s)
		if err != nil {
			return end, err
		}
		if first := end; first != nil {
			end = func(runErr string) { first(runErr); ends(runErr) }
		} else {
			end = ends
		}
	}
	return end, nil
}
