package engine

import (
	"context"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Source has a call's inputs and takes its results, whose types only the caller
// knows. The engine calls its methods without holding a lock.
type Source interface {
	// Encode returns the inputs lo to hi-1 as the frames of one slice. An error
	// that concerns a single input is an *InputError. It is called from several
	// goroutines at a time.
	Encode(lo, hi int) ([][]byte, error)
	// Deliver takes the outcome of tasks. It returns the indices of those whose
	// outputs it could not decode, which have failed as well. Each task is
	// delivered once, from any goroutine.
	Deliver(o Outcome) (unread []int)
	// Finish is called once: with nil after the last Deliver of a wanted task,
	// or with the reason why the call as a whole failed, possibly during a
	// Deliver. The tally has what was delivered until then.
	Finish(err error, t Tally)
}

// Outcome is how the tasks Lo to Lo+N-1 of a call have ended together.
type Outcome struct {
	Lo, N    int
	Outputs  [][]byte // the frames of a slice of N outputs; nil when all failed, unless KeepFailed
	Failures []Failure
	Worker   string        // that ran them, "" for none
	Each     time.Duration // the mean running time of one
	Reruns   map[int]int   // how often some of them were started before, by their indices
	Again    []int         // those that have failed and run again: they are not delivered, and not among the failures
	from     *worker
	timing   *timing // nil if nobody watches
}

// Failure is the outcome of a task that failed. Err is a *wire.Error when its
// function returned an error or panicked.
type Failure struct {
	Index   int
	Attempt int // how often it was started, or may have been; 0 if it was not
	Err     error
	may     bool // it may run again; see Retry
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
	Number      uint64 // for events; 0 for a new one
	Func        string
	Chunk       int                       // tasks in a batch; 0 adapts
	Timeout     time.Duration             // for one task; 0 for none
	Deadline    time.Time                 // of the caller, for the tasks to know; zero for none
	StopOnError bool                      // tasks after the first failed one are unwanted
	Awaited     bool                      // one task, whose caller will call Wait
	Encoded     bool                      // the inputs are encoded: Encode returns at once
	KeepFailed  bool                      // what a function returned beside its error is an output, too
	Single      bool                      // one task, whose input is no element of a list
	Plain       bool                      // Encode calls no code of the user's, which may take any time
	Priority    int                       // calls of a higher one come first
	Seed        uint64                    // for the tasks to know
	Retry       *Retry                    // of tasks that have failed; nil for none
	Finished    iter.Seq2[int, int]       // tasks that are not to run, from an index to below another, in order; nil for none
	Keys        func(lo, hi int) []uint64 // that tasks have in the place of their indices, for seeds; nil for none
	Near        Near                      // where what a task refers to is; nil for nowhere
	Retried     *atomic.Int64             // counts its tasks as Stats does; nil if nobody asks
}

// Near says which workers have what a task refers to: how much of it one has, and how much any could have; nil if that is nothing. It
// is called under the engine's lock.
type Near func(task int) (has func(worker string) int, most int)

// Call is one Apply, Map or IMap: its tasks and their state. The engine's lock
// guards the fields.
type Call struct {
	engine *Engine
	id     uint64
	number uint64 // for events
	opts   CallOptions
	stats  *funcStats // of the function, in the calls that have ended
	own    funcStats  // in this call
	source Source

	total int     // inputs so far
	open  bool    // more may come
	fresh int     // the first input that was never handed out
	back  spans   // given back, or left over between finished ones; all below fresh
	again byIndex // run again
	limit int     // tasks from here on are unwanted

	came       Tally
	kept       int          // tasks that were finished before
	held       row          // wanted, and held by workers
	delivering []span       // on the way from their worker to the source
	attempts   map[int]int  // workers lost by tasks that ran alone
	failures   map[int]int  // how often tasks have failed that run again
	paused     map[int]bool // tasks that have failed and will be in again
	reruns     map[int]int  // how often tasks were lost that may have run
	largest    int          // tasks in the largest batch so far
	cap        int          // the most tasks whose encoded inputs fit a message, 0 if unknown
	perTask    float64      // encoded bytes of one input
	perResult  float64      // of one output
	ending     error        // goes to Finish after the last delivery
	cut        bool         // the pool was closed while it was open
	finished   bool
	slow       bool    // encoding a batch may take long
	waitsFor   *worker // whose very short task the caller waits for; the caller's, not under the lock
	queued     bool    // it is in the engine's queue
}

// span is the tasks lo to hi-1 of a call.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// below returns the part of s below limit.
func (s span) below(limit int) span { return span{min(s.lo, limit), min(s.hi, limit)} }

// spans are tasks that wait; the last span is the next.
type spans struct {
	all   []span
	tasks int // in all of them
}

func (s *spans) push(x span) {
	s.all = append(s.all, x)
	s.tasks += x.len()
}

// putUnder adds a span that is the last to be taken.
func (s *spans) putUnder(x span) {
	s.all = slices.Insert(s.all, 0, x)
	s.tasks += x.len()
}

// take takes up to n tasks of the last span.
func (s *spans) take(n int) span {
	last := &s.all[len(s.all)-1]
	x := span{last.lo, min(last.lo+n, last.hi)}
	if last.lo = x.hi; last.len() == 0 {
		s.all = s.all[:len(s.all)-1]
	}
	s.tasks -= x.len()
	return x
}

// giveUp leaves out the tasks from a limit on.
func (s *spans) giveUp(limit int) {
	left := s.all[:0]
	s.tasks = 0
	for _, x := range s.all {
		if x = x.below(limit); x.len() > 0 {
			left = append(left, x)
			s.tasks += x.len()
		}
	}
	s.all = left
}

// suspect is a span of tasks that may have taken their worker down.
type suspect struct {
	call *Call
	span
}

// funcStats is what the engine has learnt about a function. The running times
// of other calls decide only where a mistake is cheap: whether a start is
// announced, on which goroutine the task runs, and how many workers are woken at
// once. How many tasks a worker may hold that it has not begun is decided by the
// call's own: the next input may take a thousand times longer.
type funcStats struct {
	seconds float64 // one task's running time, <0 before the first
}

// learn takes a measurement into account. It is of wall-clock time and includes
// waiting for a CPU, so the estimate is a geometric mean: a task that waited a
// hundred times as long raises it six times. One that had little to do lowers it
// to a third at most.
func (f *funcStats) learn(seconds float64) {
	if f.seconds < 0 {
		f.seconds = seconds
		return
	}
	f.seconds = max(f.seconds, 1e-9)
	f.seconds *= math.Exp(0.4 * math.Log(max(seconds/f.seconds, 1.0/16)))
}

// seconds estimates the running time of one task from this call's tasks or, if
// none has returned, from other calls'; the estimate is negative when nothing
// is known.
func (c *Call) seconds() float64 {
	if c.own.seconds >= 0 {
		return c.own.seconds
	}
	return c.stats.seconds
}

// waiting returns how many tasks could be handed out now.
func (c *Call) waiting() int {
	return max(0, min(c.total, c.limit)-c.fresh) + c.back.tasks + c.again.Len()
}

// hasWork reports whether a task could be handed out now.
func (c *Call) hasWork() bool { return c.again.Len() > 0 || c.hasOthers() }

// hasOthers reports whether a task could be handed out now that has not failed.
func (c *Call) hasOthers() bool { return c.back.tasks > 0 || c.fresh < min(c.total, c.limit) }

// unresolved reports whether a wanted task is not delivered yet.
func (c *Call) unresolved() bool {
	wanted := func(s span) bool { return s.lo < min(s.hi, c.limit) }
	return c.hasWork() || len(c.paused) > 0 || slices.ContainsFunc(c.delivering, wanted) ||
		c.holds(wanted) ||
		slices.ContainsFunc(c.engine.suspects, func(s suspect) bool { return s.call == c })
}

// holds reports whether a batch has tasks that are wanted.
func (c *Call) holds(wanted func(span) bool) bool {
	for b := range c.held.all() {
		if wanted(b.left()) {
			return true
		}
	}
	return false
}

// take removes up to n tasks, those that are to run next, and returns them.
func (c *Call) take(n int) span {
	if c.back.tasks > 0 {
		return c.back.take(n)
	}
	s := span{c.fresh, min(c.fresh+n, c.total, c.limit)}
	c.fresh = s.hi
	return s
}

// first returns the task that is to run next, if there is one that has not failed.
func (c *Call) first() int {
	if c.back.tasks > 0 {
		return c.back.all[len(c.back.all)-1].lo
	}
	return c.fresh
}

// giveBack puts tasks in front of all others of the call. If the call is cut,
// they are given up instead.
func (c *Call) giveBack(s span) {
	if s = s.below(c.limit); s.len() > 0 && !c.cut {
		c.back.push(s)
		c.engine.enqueue(c)
	}
}

// giveBack puts tasks of the batch back where they came from.
func (b *batch) giveBack(s span) {
	if !b.solo {
		b.call.giveBack(s)
		return
	}
	if s = s.below(b.call.limit); s.len() > 0 && !b.call.cut {
		e := b.call.engine
		e.suspects = append(e.suspects, suspect{b.call, s})
	}
}

// Extend adds inputs to an open call: some that are finished, and n behind them that are
// not. Once the pool is closed they are refused, and the call ends with ErrClosed.
func (c *Call) Extend(finished, n int) {
	e := c.engine
	e.mu.Lock()
	if c.open {
		c.skip(finished)
		c.total += n
		e.started = e.started || n > 0
		e.enqueue(c)
	}
	e.release()
}

// leaveOut leaves out finished tasks of a call that is not open, and returns how many there are.
func (c *Call) leaveOut(finished iter.Seq2[int, int]) (n int) {
	if finished == nil {
		return 0
	}
	next := 0
	for lo, hi := range finished {
		c.back.push(span{next, lo})
		next = hi
		n += hi - lo
	}
	c.back.all = slices.DeleteFunc(c.back.all, func(s span) bool { return s.len() == 0 })
	slices.Reverse(c.back.all) // what comes first is the last
	if next == 0 {
		return n
	}
	if rest := (span{next, c.total}); rest.len() > 0 {
		c.back.putUnder(rest)
	}
	c.fresh = c.total
	return n
}

// skip adds finished inputs. What waits in front of them is the last to run of what was given back.
func (c *Call) skip(n int) {
	if n == 0 {
		return
	}
	if waits := (span{c.fresh, c.total}).below(c.limit); waits.len() > 0 {
		c.back.putUnder(waits)
	}
	c.total += n
	c.kept += n
	c.fresh = c.total
}

// CloseInput says that an open call has all its inputs.
func (c *Call) CloseInput() {
	e := c.engine
	e.mu.Lock()
	c.open = false
	e.settle(c)
	e.release()
}

// Wait waits until done is closed, or returns the ctx's error. If the call's task
// is very short, its caller may read the result itself; see tree.Child.Wait.
func (c *Call) Wait(ctx context.Context, done <-chan struct{}) error {
	if w := c.waitsFor; w != nil {
		return w.proc.Wait(ctx, done)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Window returns how many inputs of an open call should be between read and
// delivered: enough to keep every worker busy while one result is late. Those of tasks
// that have failed and run again may come in addition, up to most in all.
func (c *Call) Window() (window, most int) {
	e := c.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	each := 2 * max(1, c.opts.Chunk)
	if seconds := c.seconds(); seconds > 0 {
		each = max(each, int(windowSeconds/seconds))
	}
	slots := e.slots()
	window, most = slots*min(each, windowTasks), windowTasks
	if bytes := c.perTask + c.perResult; bytes > 0 {
		most = min(most, int(windowBytes/bytes))
	}
	most = max(most, min(slots+1, windowTasks))
	return min(max(window, slots+1), most), most
}
