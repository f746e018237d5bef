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

// pause has a task that has failed run again after a pause, unless it is unwanted by now.
func (e *Engine) pause(c *Call, task int, on *worker) {
	if c.finished || c.cut || task >= c.limit {
		return
	}
	if c.failures == nil {
		c.failures, c.paused = map[int]int{}, map[int]bool{}
	}
	c.failures[task]++
	c.retried(span{task, task + 1})
	e.stats.TasksRetried++
	pause := retry.Pause(c.opts.Retry.First, c.opts.Retry.Longest, c.failures[task])
	at := time.Now().Add(pause)
	c.paused[task] = true
	heap.Push(&e.paused, failed{c, task, at, at.Add(max(pause, elsewhere)), on})
}

// resume ends the pauses that are over.
func (e *Engine) resume() {
	for len(e.paused) > 0 {
		f := e.paused[0]
		if wanted := f.call.paused[f.task]; wanted && time.Now().Before(f.at) {
			e.wake(f.at)
			return
		} else if wanted {
			delete(f.call.paused, f.task)
			f.call.again = append(f.call.again, f)
			e.enqueue(f.call)
		}
		heap.Pop(&e.paused)
	}
}

// tryAgain hands out the first of a call's failed tasks, if a worker is free on which it has not failed. It may run on
// the same one if there is no other, or if the others have been busy for long.
func (e *Engine) tryAgain(c *Call) bool {
	f := c.again[0]
	same := !time.Now().Before(f.late) || !slices.ContainsFunc(e.workers, func(w *worker) bool { return w != f.on && w.state <= ready })
	for _, w := range e.workers {
		if class := w.class(); class >= slot && (w != f.on || same) {
			c.again[0] = failed{}
			c.again = c.again[1:]
			e.batch(w, c, span{f.task, f.task + 1}, false)
			return true
		}
	}
	e.wake(f.late)
	return false
}

// pauses is a heap of failed tasks: the one whose pause ends first is the first.
type pauses []failed

func (p pauses) Len() int           { return len(p) }
func (p pauses) Less(i, j int) bool { return p[i].at.Before(p[j].at) }
func (p pauses) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *pauses) Push(f any)        { *p = append(*p, f.(failed)) }

func (p *pauses) Pop() any {
	last := len(*p) - 1
	f := (*p)[last]
	(*p)[last] = failed{}
	*p = (*p)[:last]
	return f
}
