package engine

import (
	"container/heap"
	"iter"
	"slices"
	"time"

	"github.com/fiber-go/fiber/internal/retry"
)

// Retry says which tasks that have failed run again, and when.
type Retry struct {
	Times          int                 // further attempts of each task
	If             func(*Failure) bool // it may change the failure's error; called on a goroutine of its own
	First, Longest time.Duration       // the pauses before them; see retry.Pause
}

// elsewhere is how long a failed task waits at least for another worker than the one it failed on, if there is one.
const elsewhere = time.Second

// failed is a task that runs again.
type failed struct {
	call *Call
	task int
	at   time.Time // when its pause ends
	late time.Time // when it may run where it has failed
	on   *worker   // where it has failed
}

// mayFail reports whether a task runs again if it has failed once more.
func (c *Call) mayFail(task int) bool {
	return c.opts.Retry != nil && c.failures[task] < c.opts.Retry.Times
}

// judge moves those of the failures that are not final to o.Again.
func (c *Call) judge(o *Outcome) {
	final := o.Failures[:0]
	for _, f := range o.Failures {
		if f.may && c.opts.Retry.If(&f) {
			o.Again = append(o.Again, f.Index)
			continue
		}
		final = append(final, f)
	}
	o.Failures = final
}

// Delivered yields the tasks that are delivered, from one index to below another.
func (o Outcome) Delivered() iter.Seq2[int, int] {
	return func(yield func(lo, hi int) bool) {
		lo := o.Lo
		for _, task := range o.Again {
			if lo < task && !yield(lo, task) {
				return
			}
			lo = task + 1
		}
		if lo < o.Lo+o.N {
			yield(lo, o.Lo+o.N)
		}
	}
}

// postpone has a task that has failed run again after a pause, unless it is unwanted by now.
func (e *Engine) postpone(c *Call, task int, on *worker) {
	if c.finished || c.cut || task >= c.limit {
		return
	}
	if c.failures == nil {
		c.failures, c.paused = map[int]int{}, map[int]bool{}
	}
	c.failures[task]++
	wait := retry.Pause(c.opts.Retry.First, c.opts.Retry.Longest, c.failures[task])
	at := time.Now().Add(wait)
	c.paused[task] = true
	heap.Push(&e.paused, failed{c, task, at, at.Add(max(wait, elsewhere)), on})
}

// resume ends the pauses that are over.
func (e *Engine) resume() {
	for e.paused.Len() > 0 {
		f := e.paused.heaped[0]
		wanted := f.call.paused[f.task]
		if wanted && time.Now().Before(f.at) {
			e.wake(f.at)
			return
		}
		heap.Pop(&e.paused)
		if !wanted {
			e.stale--
			continue
		}
		delete(f.call.paused, f.task)
		heap.Push(&f.call.again, f)
		e.enqueue(f.call)
	}
}

// forget notes that so many tasks that pause have become unwanted. They leave when there are more of them than others.
func (e *Engine) forget(n int) {
	if e.stale += n; 2*e.stale > e.paused.Len() {
		e.paused.heaped = slices.DeleteFunc(e.paused.heaped, func(f failed) bool { return !f.call.paused[f.task] })
		heap.Init(&e.paused)
		e.stale = 0
	}
}

// tryAgain hands out one of the first of a call's failed tasks, with those behind it if they are short, if a worker is free on
// which they have not failed. They may run on the same one if there is no other, or if the others have been busy for long.
func (e *Engine) tryAgain(c *Call) bool {
	now := time.Now()
	others := func(on *worker) bool {
		return slices.ContainsFunc(e.workers, func(w *worker) bool { return w != on && w.state <= ready })
	}
	fits := func(f failed, w *worker) bool { return w != f.on || !now.Before(f.late) || !others(f.on) }
	due := c.again.heaped[0].late
	for _, w := range e.workers {
		if w.class() < slot {
			continue
		}
		at := -1
		for i, f := range c.again.heaped[:min(c.again.Len(), lookedAt)] {
			if f.late.Before(due) {
				due = f.late
			}
			if fits(f, w) && (at < 0 || f.task < c.again.heaped[at].task) {
				at = i
			}
		}
		if at < 0 {
			continue
		}
		first := heap.Remove(&c.again, at).(failed)
		s := span{first.task, first.task + 1}
		for most := e.size(c, e.remaining(w)); s.len() < most && c.again.Len() > 0; s.hi++ {
			if next := c.again.heaped[0]; next.task != s.hi || c.reruns[next.task] != c.reruns[s.lo] || !fits(next, w) {
				break
			}
			heap.Pop(&c.again)
		}
		c.retried(s)
		e.stats.TasksRetried += s.len()
		e.batch(w, c, s, false)
		return true
	}
	e.wake(due)
	return false
}

// lookedAt is how many failed tasks are looked through for one that a free worker may run.
const lookedAt = 64

// heaped are tasks in a heap.
type heaped []failed

func (h heaped) Len() int      { return len(h) }
func (h heaped) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heaped) Push(x any)   { *h = append(*h, x.(failed)) }

func (h *heaped) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	if *h = slices.Delete(*h, last, last+1); last == 0 {
		*h = nil // not to keep the room that a million took
	}
	return f
}

// byTime has the task first whose pause ends first, and byIndex the first of its call.
type (
	byTime  struct{ heaped }
	byIndex struct{ heaped }
)

func (t byTime) Less(i, j int) bool  { return t.heaped[i].at.Before(t.heaped[j].at) }
func (t byIndex) Less(i, j int) bool { return t.heaped[i].task < t.heaped[j].task }
