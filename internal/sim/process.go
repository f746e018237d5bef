package sim

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/self"
)

// Process is a simulated process. Its goroutines are those that have its labels, which goroutines inherit.
type Process struct {
	Name    string
	run     *Run
	machine *machine
	self    *self.Self
	labels  unsafe.Pointer
	in, out wire

	dead      bool        // under the network's lock, as the next
	listeners []*listener // that it has open

	returned chan struct{} // closed when its main function has
	killed   atomic.Bool
	cancel   context.CancelFunc            // ends the contexts of its functions; nil unless its run is inline
	stopped  atomic.Pointer[chan struct{}] // closed when the process goes on; nil while it runs

	mu      sync.Mutex
	signals []notified
	fired   map[string]int // see Fired
	ended   bool
	endedAt time.Time
	over    func(backend.ExitStatus)
}

type notified struct {
	to      chan<- os.Signal
	signals []os.Signal
}

// running says whether a run is simulated.
var running atomic.Bool

// processes are those of all runs, by the labels of their goroutines.
var processes sync.Map

// simulation finds processes by the labels of goroutines.
type simulation struct{}

// Here returns the process of the calling goroutine, nil if that is in none.
func Here() *Process {
	p, _ := processes.Load(labels())
	here, _ := p.(*Process)
	return here
}

func (simulation) Of() *self.Self {
	p := Here()
	switch {
	case p != nil:
		return p.self
	case running.Load():
		panic("a goroutine of no process: bind the timer that started it, with self.AfterFunc")
	}
	return nil
}

func (simulation) Net(address string) self.Net {
	if p := root.Load(); p != nil && strings.HasPrefix(address, Inline+":") {
		return sockets{p}
	}
	return nil
}

func (simulation) Bind(f func(), garbage bool) func() {
	p := Here()
	if p == nil {
		return f
	}
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	bound := func() {
		setLabels(p.labels)
		p.mu.Lock()
		p.fired[name]++
		p.mu.Unlock()
		for c := p.stopped.Load(); c != nil; c = p.stopped.Load() {
			<-*c
		}
		f()
	}
	if !garbage {
		return bound
	}
	if p.run.inline {
		return func() { go bound() }
	}
	return func() { // called outside of the bubble
		p.run.mu.Lock()
		defer p.run.mu.Unlock()
		p.run.garbage = append(p.run.garbage, bound)
	}
}

//go:linkname setLabels runtime/pprof.runtime_setProfLabel
func setLabels(unsafe.Pointer)

//go:linkname labels runtime/pprof.runtime_getProfLabel
func labels() unsafe.Pointer

// start starts a process, which calls main, and over when it has ended.
func (r *Run) start(m *machine, name string, env map[string]string, stdout, stderr io.Writer, main func(), over func(backend.ExitStatus)) *Process {
	p := &Process{Name: name, run: r, machine: m, fired: map[string]int{}, over: over, returned: make(chan struct{})}
	r.mu.Lock()
	p.self = &self.Self{PID: firstPID + r.serial, Env: env, Backend: &simulated{r}, Net: sockets{p}, Stdout: said{p, stdout}, Stderr: said{p, stderr},
		Notify: p.notify, Die: p.die, Exit: p.exit}
	if r.disk != nil {
		p.self.Disk = mounted{r.disk, p}
	}
	base := context.Background()
	if r.inline {
		base, p.cancel = context.WithCancel(base)
	}
	r.serial++
	r.live = append(r.live, p)
	r.log("%s starts on %s", name, m.name)
	r.mu.Unlock()
	r.all.Add(2)
	go func() {
		defer r.all.Done()
		p.self.Base = pprof.WithLabels(base, pprof.Labels("process", name))
		pprof.SetGoroutineLabels(p.self.Base) // and so does pprof.Do at its end, with a context that is derived from it
		p.labels = labels()
		processes.Store(p.labels, p)
		defer func() { // also after Goexit
			close(p.returned)
			go func() {
				defer r.all.Done()
				p.end(backend.ExitStatus{Code: 2})
				r.End()
				if r.inline { // goroutines of its function may go on, and are not the root's
					processes.Store(p.labels, r.left(p.labels))
				}
			}()
		}()
		main()
		p.end(backend.ExitStatus{})
	}()
	return p
}

// left returns the process of all goroutines that processes of the backend inline have left behind: one that has ended.
func (r *Run) left(labels unsafe.Pointer) *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.behind == nil {
		p := &Process{run: r, machine: r.net.machines[0], labels: labels, dead: true, ended: true, fired: map[string]int{}}
		p.self = &self.Self{Env: map[string]string{}, Backend: &simulated{r}, Net: sockets{p}, Stdout: io.Discard, Stderr: io.Discard,
			Notify: p.notify, Die: p.die, Exit: p.exit}
		r.behind = p
	}
	return r.behind
}

// said is an output of a process, which says nothing once it has ended.
type said struct {
	by *Process
	to io.Writer
}

func (s said) Write(b []byte) (int, error) {
	if !s.by.Alive() {
		return len(b), nil
	}
	return s.to.Write(b)
}

// end makes the process one that has ended. Its goroutines may not know yet, and reach nobody any more.
func (p *Process) end(how backend.ExitStatus) {
	p.mu.Lock()
	first := !p.ended
	if p.ended = true; first {
		p.endedAt = time.Now()
	}
	for _, n := range p.signals {
		if p.run.inline && !p.killed.Load() {
			close(n.to) // its main function has returned
		} else {
			n.last()
		}
	}
	p.signals = nil
	p.mu.Unlock()
	if !first {
		return
	}
	r := p.run
	r.mu.Lock()
	if !r.inline {
		r.ended[p.Name] = true
	}
	r.live = slices.DeleteFunc(r.live, func(q *Process) bool { return q == p })
	r.log("%s has ended: %v", p.Name, how)
	r.mu.Unlock()
	p.stop(false)
	r.net.hangUp(p, io.EOF)
	if p.over == nil {
		return
	}
	go func() {
		if r.net.isDown(p.machine) {
			time.Sleep(lostAfter)
		}
		p.over(how)
	}()
}

// lostAfter is how long after a machine has failed its jobs are known to have ended.
const lostAfter = 20 * time.Second

// last tells what still runs of a process that has ended to end: it reaches nobody meanwhile.
func (n notified) last() {
	select {
	case n.to <- syscall.SIGTERM:
	default:
	}
	close(n.to)
}

func (p *Process) notify(to chan<- os.Signal, signals ...os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := (notified{to, signals}); p.ended {
		n.last()
	} else {
		p.signals = append(p.signals, n)
	}
}

// signal sends the process a signal.
func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	heeded := false
	for _, n := range p.signals {
		if slices.Contains(n.signals, os.Signal(s)) {
			heeded = true
			select {
			case n.to <- s:
			default:
			}
		}
	}
	p.mu.Unlock()
	if !heeded || s == syscall.SIGKILL {
		p.kill(s)
	}
}

func (p *Process) kill(s syscall.Signal) {
	if p.Alive() {
		p.killed.Store(true)
		if p.run.inline {
			go p.mustEnd()
		}
	}
	p.end(lives.Exited(128 + int(s)))
}

// mustEnd ends the program if a process that was killed goes on: its function is a part of the program, and only its context
// has ended.
func (p *Process) mustEnd() {
	p.cancel()
	for left := killedTime; left > 0; {
		began := time.Now()
		select {
		case <-p.returned:
			return
		case <-time.After(killedTick):
		}
		if time.Since(began) < 2*killedTick { // else others had the processor
			left -= killedTick
		}
	}
	fmt.Fprintf(os.Stderr, "fiber: %s was killed, and its function goes on although its context has ended: that ends the program, "+
		"which it is a part of with FIBER_BACKEND=inline\n", p.Name)
	os.Exit(128 + int(syscall.SIGKILL))
}

// killedTime is how long the function of a process that was killed may take to return, in ticks in which the program could have run.
const (
	killedTime = 2 * time.Second
	killedTick = 100 * time.Millisecond
)

func (p *Process) die(s syscall.Signal) {
	p.kill(s)
	runtime.Goexit()
}

func (p *Process) exit(code int) {
	p.end(backend.ExitStatus{Code: code})
	runtime.Goexit()
}

// stop stops a process, as SIGSTOP does, or lets it go on.
func (p *Process) stop(yes bool) {
	if yes {
		c := make(chan struct{})
		p.stopped.CompareAndSwap(nil, &c)
	} else if c := p.stopped.Swap(nil); c != nil {
		close(*c)
	}
}

// stopFor stops a process for a while.
func (p *Process) stopFor(d time.Duration) {
	p.stop(true)
	go func() {
		select {
		case <-time.After(d):
		case <-p.run.over:
		}
		p.stop(false)
	}()
}

// Alive says whether the process has not ended. What the goroutines of one that has do has no effect.
func (p *Process) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended
}

// Kill ends the process of the calling goroutine, which may go on: it has no effect any more.
func (p *Process) Kill() { p.kill(syscall.SIGKILL) }

// Crash is Kill, and loses some of what the process has not synced, as if its machine had failed.
func (p *Process) Crash() {
	p.Kill()
	p.run.disk.lose(func(by *Process) bool { return by == p })
}

// Ended is when the process has ended.
func (p *Process) Ended() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endedAt
}

// Fired says how often functions were called that self.AfterFunc and its like had set, by their names.
func (p *Process) Fired() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.fired)
}

// Killed says whether the process was killed.
func (p *Process) Killed() bool { return p.killed.Load() }

// PID is the process's number.
func (p *Process) PID() int { return p.self.PID }

// Run is the process's run.
func (p *Process) Run() *Run { return p.run }
