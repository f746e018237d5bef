package fiber

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	roots "github.com/fiber-go/fiber/internal/owner"
	"github.com/fiber-go/fiber/internal/runs"
	"github.com/fiber-go/fiber/internal/self"
)

// announce has fiber ps and fiber top find this run.
func (p *process) announce() {
	if self.Of().Disk != nil { // a simulated process
		return
	}
	l := new(lookout)
	p.announced = runs.Announce(p.node.Directory(), runs.Run{Program: filepath.Base(os.Args[0]), Owner: roots.Name(), Backend: p.node.Backend.Name(), Began: time.Now()},
		runs.Answers{Status: func() runs.Status { return p.status(l) }, Watch: func() (stop func()) {
			ctx, stop := context.WithCancel(context.Background())
			l.begin()
			events := p.node.Events.Watch(nil).All(ctx)
			go func() {
				for e, err := range events {
					if err == nil {
						l.put(e)
					}
				}
			}()
			return stop
		}})
}

// status says how the run is, with what a lookout has seen.
func (p *process) status(l *lookout) (s runs.Status) {
	s.Page = p.page
	processes := map[string]runs.Process{p.node.Name: {Name: p.node.Name, CPU: -1}}
	for _, c := range p.node.Children() {
		processes[c.Name()] = runs.Process{Name: c.Name(), CPU: -1}
	}
	for number, pool := range p.pools.all() {
		of := pool.Stats()
		calls, ended := pool.engine.Calls()
		if ended && len(of.Processes) == 0 {
			continue
		}
		if pool.sole == "" {
			s.Pools = append(s.Pools, runs.Pool{Number: number, Name: pool.opts.Label, Starting: of.Starting, Ready: of.Ready, Idle: of.Idle, Lost: of.WorkersLost, Queued: of.Queued,
				Held: of.Running, Done: of.Done, Failed: of.Failed, Retried: of.Retried, Waits: of.Pending})
		}
		for _, c := range calls {
			s.Calls = append(s.Calls, runs.Call{Pool: pool.opts.Label, Number: c.Number, Func: c.Func, Tasks: c.Tasks, Done: c.Kept + c.Done + c.Failed, Failed: c.Failed, Retried: c.Retried})
		}
		for _, w := range of.Processes {
			processes[w.Name] = runs.Process{Name: w.Name, State: w.State, Done: w.Done, Runs: busyWith(w.Running), CPU: -1, Resident: w.Resident, Shared: w.Shared}
		}
	}
	slices.SortFunc(s.Pools, func(a, b runs.Pool) int { return cmp.Or(byWork(a, b), cmp.Compare(a.Number, b.Number)) })
	slices.SortFunc(s.Calls, func(a, b runs.Call) int { return cmp.Compare(a.Number, b.Number) })
	l.add(&s, processes)
	s.AllPools, s.AllCalls, s.Running = len(s.Pools), len(s.Calls), len(s.Processes)
	s.Pools, s.Calls, s.Processes = first(s.Pools), first(s.Calls), first(s.Processes)
	return s
}

// byWork has pools with tasks come first.
func byWork(a, b runs.Pool) int {
	return cmp.Compare(min(1, b.Queued+b.Held), min(1, a.Queued+a.Held))
}

func first[T any](list []T) []T { return list[:min(len(list), runs.MaxListed)] }

// busyWith says what a worker runs.
func busyWith(tasks []RunningTask) string {
	var all []string
	for _, t := range tasks {
		all = append(all, fmt.Sprintf("%s #%d, %v", t.Func, t.Index, time.Since(t.Since).Round(time.Second)))
	}
	return strings.Join(all, "; ")
}

// lookout sees what processes use, and what goes wrong, while fiber top shows the run.
type lookout struct {
	mu   sync.Mutex
	used map[string]usage // by the name of the process
	news []runs.News
}

// usage says what a process used when it was last heard of.
type usage struct {
	event.ProcessStatus
	at         time.Time // by its clock
	heard      time.Time
	processors float64 // since it was heard of before; -1 if it was not
}

// staleAfter is after what time a process is not counted any more of which nothing was heard: its parent is gone as well.
const staleAfter = 5 * observe.SampleInterval

// begin forgets what was seen before.
func (l *lookout) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.news = map[string]usage{}, nil
}

func (l *lookout) put(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch what := e.What.(type) {
	case event.ProcessStatus:
		before, had := l.used[what.Name]
		now := usage{what, e.Time, time.Now(), -1}
		if seconds := e.Time.Sub(before.at).Seconds(); had && seconds > 0 {
			now.processors = max(0, (what.CPU-before.CPU).Seconds()/seconds)
		}
		l.used[what.Name] = now
	case event.ProcessEnded:
		delete(l.used, what.Name)
	case event.Tasks:
		if what.Failed > 0 {
			l.tell(e.Time, what.Func+": "+what.Err)
		}
	case event.Log:
		if what.Level == slog.LevelWarn.String() || what.Level == slog.LevelError.String() {
			l.tell(e.Time, strings.Join(append([]string{what.Message}, what.Attrs...), " "))
		}
	}
}

// tell adds news.
func (l *lookout) tell(at time.Time, text string) {
	const most = 300 // of which a terminal shows a line
	l.news = append(l.news, runs.News{At: at, Text: clip(text, most)})
	l.news = l.news[max(0, len(l.news)-runs.MaxNews):]
}

// add adds what was seen to what is known of the processes that this one has started.
func (l *lookout) add(s *runs.Status, processes map[string]runs.Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, u := range l.used {
		w, known := processes[name]
		switch {
		case !known && time.Since(u.heard) > staleAfter:
			delete(l.used, name)
			continue
		case !known:
			w = runs.Process{Name: name}
		}
		w.CPU, w.Resident, w.Shared = u.processors, u.Resident, u.Shared
		processes[name] = w
	}
	for _, w := range processes {
		s.Processes = append(s.Processes, w)
		s.CPU += max(0, w.CPU)
		s.Resident += w.Resident
	}
	slices.SortFunc(s.Processes, func(a, b runs.Process) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	s.News = slices.Clone(l.news)
}
