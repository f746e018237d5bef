package fiber

import (
	"context"
	"encoding/base64"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Events yields what happens from the loop's beginning on: in the main process, in the whole
// run; in another process, in it and in those below. It blocks until something has happened.
// Events come about 50 ms late, several at a time, in the order in which they happened
// in their process. When this process ends, by Shutdown for example, the loop ends after
// the last event; if ctx ends before that, the loop ends with ctx.Err().
//
// A loop that is slow delays nobody: it misses events, and an event.Missed says how many.
// Without a loop over events, nothing is recorded. Shutdown, and the end of Main, wait for
// the loops, but not for longer than shutdown_grace.
func Events(ctx context.Context) iter.Seq2[event.Event, error] {
	p, err := running()
	if err != nil {
		return failing(err)
	}
	return p.events(ctx, nil)
}

// Events yields what happens to the pool, its calls, tasks and workers, as the function
// [Events] does. Pools of one process that have the same name share their events.
func (p *Pool) Events(ctx context.Context) iter.Seq2[event.Event, error] {
	if !p.made() {
		return failing(errEmpty("Pool"))
	}
	return p.proc.events(ctx, p.concerns)
}

// concerns returns a filter that events of the pool pass.
func (p *Pool) concerns() func(*event.Event) bool {
	pool, process, mine := p.opts.Label, p.proc.node.Name, map[string]bool{}
	for _, w := range p.engine.Stats().Workers {
		mine[w.Name] = true
	}
	own := func(its, worker string) bool {
		if its == pool {
			mine[worker] = true
		}
		return its == pool
	}
	return func(e *event.Event) bool {
		if e.Process != process {
			return false
		}
		switch what := e.What.(type) {
		case event.CallBegan:
			return what.Pool == pool
		case event.CallEnded:
			return what.Pool == pool
		case event.Tasks:
			return what.Pool == pool
		case event.WorkerStarting:
			return own(what.Pool, what.Worker)
		case event.WorkerReady:
			return own(what.Pool, what.Worker)
		case event.WorkerEnded:
			if what.Pool == pool && !what.Ready {
				delete(mine, what.Worker)
			}
			return what.Pool == pool
		case event.Waiting:
			return mine[what.Name]
		case event.ProcessStarted:
			return mine[what.Name]
		case event.ProcessStatus:
			return mine[what.Name]
		case event.ProcessEnded:
			was := mine[what.Name]
			delete(mine, what.Name)
			return was
		case event.Missed, event.RunEnded:
			return true
		}
		return false
	}
}

func init() {
	observe.Current = func() (*observe.Hub, error) {
		p, err := running()
		if err != nil {
			return nil, err
		}
		return p.node.Events, nil
	}
}

// failing yields an error.
func failing(err error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) { yield(event.Event{}, err) }
}

// events yields the events of this process that pass a filter, all if filter is nil.
func (p *process) events(ctx context.Context, filter func() func(*event.Event) bool) iter.Seq2[event.Event, error] {
	if ctx == nil {
		return failing(errNilContext)
	}
	return func(yield func(event.Event, error) bool) {
		var wants func(*event.Event) bool
		if filter != nil {
			wants = filter()
		}
		p.node.Events.Watch(wants).All(ctx)(yield)
	}
}

// report starts what FIBER_REPORT, FIBER_TRACE, FIBER_DASHBOARD and FIBER_METRICS ask for.
func (p *process) report() (err error) {
	machine, _ := os.Hostname()
	s := observe.Settings{Report: p.node.Config.Report, Trace: p.node.Config.Trace, Dashboard: p.node.Config.Dashboard,
		Metrics: p.node.Config.Metrics, Backend: p.node.Backend.Name(),
		Events: func() iter.Seq2[event.Event, error] {
			return p.node.Events.Watch(nil).All(context.Background()) // from now on: the loop may begin late
		},
		Page:    func(url string) { p.page = url },
		Program: filepath.Base(os.Args[0]), Machine: machine, GoVersion: runtime.Version()}
	p.endReport, err = observe.Report(s)
	return err
}

// lastEvents ends what those who watch get, and waits for them.
func (p *process) lastEvents() {
	ctx, cancel := context.WithTimeout(context.Background(), p.node.Config.ShutdownGrace)
	defer cancel()
	var last event.What
	failure := ""
	if p.node.Parent == nil {
		if p.failure != nil {
			failure = p.failure.Error()
		}
		last = event.RunEnded{Err: failure}
	}
	p.node.Events.Close(ctx, last)
	if p.endReport != nil {
		p.endReport(failure)
		p.returnFiles()
	}
}

// pieceSize is how many bytes of a file go in a line.
const pieceSize = 24 << 10

// returnFiles sends the report and the trace to who follows the program, if they are wanted there.
func (p *process) returnFiles() {
	for _, key := range stdio.Returned() {
		path := map[string]string{"report": p.node.Config.Report, "trace": p.node.Config.Trace}[key]
		if err := returnFile(key, path); err != nil {
			p.node.Log.Warn("fiber: a file can't be sent to who follows the program", "setting", key, "error", err)
		}
	}
}

func returnFile(key, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size := 0
	for piece := make([]byte, pieceSize); ; {
		n, err := io.ReadFull(f, piece)
		if n > 0 {
			size += n
			stdio.Stderr.Write(output.Mark(stdio.ReturnKind, append([]byte(key+" "), base64.StdEncoding.AppendEncode(nil, piece[:n])...)))
		}
		switch err {
		case nil:
			continue
		case io.EOF, io.ErrUnexpectedEOF:
			stdio.Stderr.Write(output.Mark(stdio.ReturnKind, []byte(key+" ="+strconv.Itoa(size))))
			return nil
		}
		return err
	}
}

// sample tells of what only a look shows.
func (p *process) sample() {
	if p.node.Parent == nil {
		p.node.Events.Tell(event.ProcessStatus{Name: p.node.Name, Resident: local.Resident(self.Of().PID), Shared: p.shared.size(), CPU: local.Processor()})
	}
	list, more := p.objects.Objects()
	some := len(list) > 0 || more > 0
	if some || p.shares {
		p.node.Events.Tell(event.Objects{List: list, More: more})
	}
	p.shares = some
}
