package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// Fault is something that goes wrong at a moment of a run.
type Fault struct {
	At   time.Duration
	Kind string
	A, B int           `json:",omitempty"` // choose whom it befalls among those that there are then
	For  time.Duration `json:",omitempty"` // how long it lasts
}

// faults are the kinds of faults. Each returns what it has done, "" if there was nobody to do it to.
var faults = map[string]func(r *Run, f Fault) string{
	"kill": func(r *Run, f Fault) string {
		return r.befall(f, func(p *Process) { p.signal(syscall.SIGKILL) })
	},
	"term": func(r *Run, f Fault) string {
		return r.befall(f, func(p *Process) { p.signal(syscall.SIGTERM) })
	},
	"stop": func(r *Run, f Fault) string {
		return r.befall(f, func(p *Process) { p.stopFor(f.For) })
	},
	"freeze": func(r *Run, f Fault) string { // until nobody believes in it any more, or for good
		d := f.For + freeze
		if f.B%2 == 0 {
			d = patience
		}
		return r.befall(f, func(p *Process) { p.stopFor(d) })
	},
	"machine": func(r *Run, f Fault) string {
		others := slices.DeleteFunc(r.others(), func(p *Process) bool { return p.machine == r.net.machines[0] })
		if len(others) == 0 {
			return ""
		}
		return r.fail(others[f.A%len(others)].machine, f.For)
	},
	"cut": func(r *Run, f Fault) string { // one direction
		l := r.link(f)
		l.cutFor(f.For)
		return l.name
	},
	"split": func(r *Run, f Fault) string { // both
		l := r.link(f)
		l.cutFor(f.For)
		r.net.between(l.to, l.from).cutFor(f.For)
		return l.name + " and back"
	},
	"slow": func(r *Run, f Fault) string { // nobody is silent for long
		l := r.link(f)
		l.slowFor(10 * f.For)
		return l.name
	},
	"reset": func(r *Run, f Fault) string { return r.net.reset(f.A) },
	"full": func(r *Run, f Fault) string {
		r.disk.fullFor(f.For, r.over)
		return "the disk"
	},
	"unsynced": func(r *Run, f Fault) string {
		r.disk.mu.Lock()
		defer r.disk.mu.Unlock()
		r.disk.fails++
		return "the next Sync"
	},
	// What befalls the next start.
	"refused":   (*Run).nextStart,
	"delayed":   (*Run).nextStart,
	"stillborn": (*Run).nextStart,
}

// Draw draws so many faults within a time. Those that last end before longest, but for machines that fail.
func Draw(r *rand.Rand, n int, within, longest time.Duration, kinds ...string) (drawn []Fault) {
	for range n {
		f := Fault{At: time.Duration(r.Int64N(int64(within))), Kind: kinds[r.IntN(len(kinds))], A: r.IntN(1000), B: r.IntN(1000)}
		// Most are short: what matters then is the order of what they delay.
		f.For = time.Duration(float64(longest) * r.Float64() * r.Float64() * r.Float64())
		if f.Kind == "machine" && r.IntN(2) == 0 {
			f.For += repair
		}
		drawn = append(drawn, f)
	}
	slices.SortFunc(drawn, func(a, b Fault) int { return int(a.At - b.At) })
	return drawn
}

// repair is how long a machine is down that does not come up at once.
const repair = 10 * time.Minute

// freeze is longer than heartbeat_timeout, and than what is done about it takes.
const freeze = 30 * time.Second

// harm brings the faults of the plan about.
func (r *Run) harm() {
	for _, f := range r.Faults {
		select {
		case <-r.over:
			return
		case <-time.After(f.At - time.Since(r.begun)):
		}
		if did := faults[f.Kind](r, f); did != "" {
			r.Count("fault " + f.Kind)
			r.lastFault.Store(int64(time.Since(r.begun)))
			r.Log("fault %s %s %v", f.Kind, did, f.For)
		}
	}
}

// Since is how long ago a moment is, or the last fault if that came later.
func (r *Run) Since(t time.Time) time.Duration {
	return min(time.Since(t), time.Since(r.begun)-time.Duration(r.lastFault.Load()))
}

// befall does something to a process other than the root.
func (r *Run) befall(f Fault, do func(*Process)) string {
	others := r.others()
	if len(others) == 0 {
		return ""
	}
	p := others[f.A%len(others)]
	do(p)
	return p.Name
}

// link returns the link between two machines that a fault befalls, more often than not to or from the root's.
func (r *Run) link(f Fault) *link {
	m := r.net.machines
	from, to := m[f.A%len(m)], m[f.B%len(m)]
	switch f.A / len(m) % 3 {
	case 0:
		from = m[0]
	case 1:
		to = m[0]
	}
	return r.net.between(from.name, to.name)
}

// fail makes a machine fail. It comes up again after some time, without its processes.
func (r *Run) fail(m *machine, d time.Duration) string {
	if !r.net.setDown(m, true) {
		return ""
	}
	n := 0
	for _, p := range r.others() {
		if p.machine == m {
			n++
			p.kill(syscall.SIGKILL)
		}
	}
	r.disk.lose(func(by *Process) bool { return by.machine == m })
	go func() {
		select {
		case <-time.After(d):
		case <-r.over:
		}
		r.net.setDown(m, false)
	}()
	return fmt.Sprintf("%s with %d processes", m.name, n)
}

func (r *Run) nextStart(f Fault) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = append(r.starts, f)
	return "the next start"
}

// startFault returns what befalls a start, which takes so long.
func (r *Run) startFault() (f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.starts) > 0 {
		f, r.starts = r.starts[0], r.starts[1:]
	}
	return f
}
