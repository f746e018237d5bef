package engine

import (
	"math"
	"time"
)

// Source is a call's inputs and the place for its results, with the types
// that only the caller knows. Its methods are called without any lock held.
type Source interface {
	// Encode gives the inputs lo to hi-1 as the frames of a slice. An error
	// that concerns one input is an *InputError.
	Encode(lo, hi int) ([][]byte, error)
	// Deliver takes the outcome of tasks lo to lo+n-1: the frames of a slice
	// of n outputs, nil when all failed, and the failures. It is called once
	// for each task, from any goroutine.
	Deliver(lo, n int, outputs [][]byte, failures []Failure)
	// Finish is called once: with nil after the last Deliver of a task that is
	// wanted, or with the reason why the call as a whole has failed, maybe in
	// the middle of a Deliver.
	Finish(err error)
}

// Failure is a task that failed. Err is a *wire.Error when its function did.
type Failure struct {
	Index int
	Err   error
}

// InputError says which input cannot be encoded.
type InputError struct {
	Index int
	Err   error
}

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// CallOptions say how a call's tasks are to run.
type CallOptions struct {
	Func        string
	Chunk       int           // tasks handed out together; 0 adapts
	Timeout     time.Duration // for one task; 0 for none
	StopOnError bool          // tasks behind the first failed one are not wanted
	Leads       bool          // one task, whose caller will call Lead
}

// Call is the tasks of one Apply, Map or IMap. The fields are the engine's,
// under its lock.
type Call struct {
	engine *Engine
	id     uint64
	opts   CallOptions
	name   []byte
	stats  *funcStats // of the function, in all calls
	own    funcStats  // in this call
	source Source

	total int    // inputs so far
	open  bool   // more may come
	fresh int    // the first input that was never granted
	back  []span // given back, the next one last; before fresh
	limit int    // tasks from here on are not wanted

	unresolved int         // wanted tasks that are not delivered
	delivering []span      // between their worker and the source
	attempts   map[int]int // losses of tasks that ran alone
	largest    int         // the most tasks handed out together so far
	cap        int         // at most so many together, for their size
	perTask    float64     // encoded bytes of one input
	perResult  float64     // of one output
	ending     error       // what the call ends with, when all its tasks are delivered
	refused    bool        // inputs were not taken, since the pool was closed
	cut        bool        // the pool was closed while it was open
	finished   bool
	leads      *worker // the worker whose messages the caller is to read; the caller's

	prev, next *Call // in the engine's ring of calls that have tasks to give
	queued     bool
}

// span is the tasks lo to hi-1 of a call.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// below is the part of s under limit.
func (s span) below(limit int) span { return span{min(s.lo, limit), min(s.hi, limit)} }

// suspect is tasks that may have taken their worker down.
type suspect struct {
	call *Call
	span
}

// funcStats is what the engine has learnt about a function. What other calls
// have shown decides what costs little when it is wrong: whether a start is
// announced, and who runs it. How much a worker holds that it has not begun is
// judged by the call's own tasks: the next input may take a thousand times longer.
type funcStats struct {
	seconds float64 // one task's running time, <0 before the first
}

// learn takes in that n tasks took so long. The time is the clock's, and may
// be that of a worker which waited for a CPU: so one measurement at most
// doubles the estimate.
func (f *funcStats) learn(n int, took time.Duration) {
	v := max(took.Seconds(), 1e-9) / float64(n)
	if f.seconds < 0 {
		f.seconds = v
		return
	}
	f.seconds = 0.6*f.seconds + 0.4*min(v, 3.5*f.seconds)
}

// seconds estimates one task's running time by what this call has shown, or
// else by what others have; it is negative when nothing is known.
func (c *Call) seconds() float64 {
	if c.own.seconds >= 0 {
		return c.own.seconds
	}
	return c.stats.seconds
}

// waiting is how many tasks could be granted now.
func (c *Call) waiting() int {
	if c.finished {
		return 0
	}
	n := max(0, min(c.total, c.limit)-c.fresh)
	for _, s := range c.back {
		n += s.len()
	}
	return n
}

// hasWork says whether a task could be granted now.
func (c *Call) hasWork() bool {
	return !c.finished && (len(c.back) > 0 || c.fresh < min(c.total, c.limit))
}

// take removes up to n of the tasks that are to run next.
func (c *Call) take(n int) span {
	if last := len(c.back) - 1; last >= 0 {
		s := c.back[last]
		if s.len() <= n {
			c.back = c.back[:last]
			return s
		}
		c.back[last].lo += n
		return span{s.lo, s.lo + n}
	}
	s := span{c.fresh, min(c.fresh+n, c.total, c.limit)}
	c.fresh = s.hi
	return s
}

// giveBack puts tasks in front of all others of the call, or gives them up
// when the call is cut.
func (c *Call) giveBack(s span) {
	if s = s.below(c.limit); s.len() == 0 || c.finished {
		return
	}
	if c.cut {
		c.unresolved -= s.len()
		c.refused = true
		c.engine.broadcast() // Close ends it
		return
	}
	c.back = append(c.back, s)
}

// Extend says that n more inputs have come to an open call. Once the pool is
// closed they are refused, and the call ends with ErrClosed.
func (c *Call) Extend(n int) {
	e := c.engine
	e.mu.Lock()
	if !c.open { // the pool was closed meanwhile
		c.refused = true
		e.mu.Unlock()
		return
	}
	c.total += n
	if c.limit == math.MaxInt {
		c.unresolved += n
	}
	e.enqueue(c)
	batches := e.dispatch()
	e.mu.Unlock()
	e.send(batches)
}

// CloseInput says that no more inputs will come to an open call.
func (c *Call) CloseInput() {
	e := c.engine
	e.mu.Lock()
	c.open = false
	if !c.refused {
		c.ending = nil
	}
	finish := e.settle(c)
	e.mu.Unlock()
	finish()
}

// Lead handles what the call's worker says, as long as it is the caller's turn
// to do so, until done is closed; see launch.Child.Lead. It returns early when
// somebody else does that.
func (c *Call) Lead(done <-chan struct{}) {
	w := c.leads
	if w == nil {
		return
	}
	w.proc.Lead(done)
	e := c.engine
	e.mu.Lock()
	more := len(w.batches) > 0
	e.mu.Unlock()
	if more {
		w.proc.Attend()
	}
}

// Window is how many inputs an open call should have between read and
// delivered: enough to keep every worker busy while one result is late, and
// bounded.
func (c *Call) Window() int {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	each := 2 * max(1, c.opts.Chunk)
	if c.stats.seconds > 0 {
		each = max(each, int(windowSeconds/c.stats.seconds))
	}
	window := e.slots() * min(each, windowTasks)
	if bytes := c.perTask + c.perResult; bytes > 0 {
		window = min(window, int(windowBytes/bytes))
	}
	return min(max(window, e.slots()+1), windowTasks)
}
