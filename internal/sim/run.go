// Package sim has the processes of a run in one program, as groups of goroutines: for debuggers, on the backend inline, and for
// tests, in whole simulated runs with machines, their network and what goes wrong. Everything above the sockets and below the
// user's functions is the real code.
package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

// Plan says what happens in a run, apart from the choices of Go's scheduler. It is drawn from a seed, and can be written
// down and made smaller.
type Plan struct {
	Seed     uint64
	Machines int
	Threads  int           // how many run goroutines: with one, what the scheduler chooses follows from the seed
	TLS      bool          `json:",omitempty"`
	Rate     int           `json:",omitempty"` // bytes a second that a process sends, and that it receives, at most; 0 for no limit
	Scale    int           // so many times as much work as usual
	Watched  bool          `json:",omitempty"` // the root follows what happens
	Ends     time.Duration `json:",omitempty"` // when the root shuts down, whatever is under way; 0 for when the work is over
	Faults   []Fault       // in the order of their times
	Work     []Work
}

// Work is a part of what the root does. The test that simulates knows what it means.
type Work struct {
	Kind string
	Seed uint64
}

// Program is what the simulated processes run.
type Program struct {
	Child func()               // is the main function of processes that the run starts
	Root  func(run *Run) error // is the main function of the first one
	End   func()               // ends what a process that has ended leaves running
}

// Run is a run in this program.
type Run struct {
	Plan
	Program
	inline bool // on the backend inline: in real time, on one machine, and nothing goes wrong or is noted
	State  any  // of the test that simulates

	net   *network
	disk  *disk // nil on the backend inline
	begun time.Time
	all   sync.WaitGroup // goroutines that processes began with
	over  chan struct{}  // closed at the end

	lastFault atomic.Int64 // when it came, from the beginning on

	mu       sync.Mutex
	serial   int
	live     []*Process      // in the order of their starts
	ended    map[string]bool // by the names of processes
	garbage  []func()        // what is to be done about values that were collected
	timeline []string
	breaches []string
	counts   map[string]int // how often faults and checks bit
	starts   []Fault        // what befalls the next starts
	behind   *Process       // see left
}

// machine is a simulated machine.
type machine struct {
	name string
	down bool // under the network's lock
}

// Result is what came of a run.
type Result struct {
	Breaches []string       // the rules that did not hold, with what happened instead
	Timeline []string       // all that happened
	Counts   map[string]int // how often each fault, each kind of work and each check bit
	Took     time.Duration  // of virtual time
}

const (
	// patience is the virtual time after which a run hangs.
	patience = 3 * time.Hour
	// settle is how long what is left of processes that have ended takes to end.
	settle = time.Minute
	// collectEvery is how often the consequences of garbage collection are carried out.
	collectEvery = 50 * time.Millisecond
	// firstPID is above those of the system's processes.
	firstPID = 5_000_000
)

// Simulate makes a run of a plan, in a bubble of virtual time.
func Simulate(bubble func(run func()), plan Plan, program Program) (result Result) {
	self.Simulate(simulation{})
	running.Store(true)
	defer running.Store(false)
	bubble(func() {
		r := &Run{Plan: plan, Program: program, begun: time.Now(), over: make(chan struct{}), ended: map[string]bool{}, counts: map[string]int{}}
		r.net, r.disk = newNetwork(plan), newDisk(plan)
		hang := time.AfterFunc(patience, func() { panic(r.hang()) })
		r.start(r.net.machines[0], "MainProcess", map[string]string{}, io.Discard, io.Discard, func() {
			if err := r.Root(r); err != nil {
				r.Breach("end", "%v", err)
			}
		}, nil)
		go r.collect()
		go r.harm()
		r.all.Wait()
		close(r.over)
		result.Took = time.Since(r.begun)
		time.Sleep(settle)
		hang.Stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		result.Breaches, result.Timeline, result.Counts = r.breaches, r.timeline, r.counts
	})
	return result
}

// hang says what a run that has not ended has done.
func (r *Run) hang() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("seed %d: the run has not ended within %v\n%s", r.Seed, patience, strings.Join(r.timeline, "\n"))
}

// Log notes an event.
func (r *Run) Log(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log(format, args...)
}

func (r *Run) log(format string, args ...any) {
	if r.inline {
		return
	}
	r.timeline = append(r.timeline, fmt.Sprintf("%12s %s", time.Since(r.begun), fmt.Sprintf(format, args...)))
}

// Breach notes that a rule did not hold.
func (r *Run) Breach(rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaches = append(r.breaches, rule+": "+fmt.Sprintf(format, args...))
	r.log("BREACH of "+rule+": "+format, args...)
}

// Count notes that something has happened that a run is to be about: a fault, or a check that could have failed.
func (r *Run) Count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.inline {
		r.counts[what]++
	}
}

// collect does what the collection of garbage brings, until the end.
func (r *Run) collect() {
	for {
		select {
		case <-r.over:
			return
		case <-time.After(collectEvery):
		}
		r.mu.Lock()
		todo := r.garbage
		r.garbage = nil
		r.mu.Unlock()
		for _, f := range todo {
			f()
		}
	}
}

// Collect collects garbage now. What follows from that comes within collectEvery.
func (r *Run) Collect() {
	runtime.GC()
	runtime.Gosched() // to what the collector calls
	runtime.GC()
}

// Live returns the processes that run, in the order of their starts.
func (r *Run) Live() []*Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.live)
}

// Ended says whether a process of that name has ended.
func (r *Run) Ended(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[name]
}

// others returns the processes that run, but for the root, in the order of their starts.
func (r *Run) others() []*Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.live), func(p *Process) bool { return p.self.PID == firstPID })
}

// random makes the generator of a purpose.
func (p Plan) random(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(p.Seed, purpose)) }
