package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/wire"
)

// Tally counts what has become of a call's tasks.
type Tally struct {
	Done, Failed, Retried int
	why                   string // the first failure that was told
}

// Tally returns what has become of the call's tasks so far.
func (c *Call) Tally() Tally {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return c.came
}

// began tells of a new call. The engine's lock is held.
func (e *Engine) began(c *Call, kept int) {
	if c.kept = kept; e.opts.Events.On() {
		tasks := c.total
		if c.open {
			tasks = -1
		}
		e.opts.Events.Tell(event.CallBegan{Pool: e.opts.Label, Call: c.number, Func: c.opts.Func, Tasks: tasks, Kept: kept})
	}
}

// Nothing tells of a call of tasks that a checkpoint had finished, all of them, or of none.
func (e *Engine) Nothing(opts CallOptions, tasks int) {
	number := cmp.Or(opts.Number, observe.NextCall())
	e.opts.Events.Tell(event.CallBegan{Pool: e.opts.Label, Call: number, Func: opts.Func, Tasks: tasks, Kept: tasks})
	e.opts.Events.Tell(event.CallEnded{Pool: e.opts.Label, Call: number, Func: opts.Func, Tasks: tasks, Kept: tasks})
}

// callOver tells of a call's end. The engine's lock is held.
func (e *Engine) callOver(c *Call, err error) {
	if !e.opts.Events.On() {
		return
	}
	what := event.CallEnded{Pool: e.opts.Label, Call: c.number, Func: c.opts.Func, Tasks: c.total, Kept: c.kept, Done: c.came.Done, Failed: c.came.Failed,
		Retried: c.came.Retried, Err: c.came.why}
	if err != nil {
		what.Err = cut(err)
	}
	e.opts.Events.Tell(what)
}

// timing has the running times of an outcome's tasks, as the worker has reported them.
type timing struct {
	at      time.Time // when it came
	run     time.Duration
	each    []wire.TaskTime // whose Index is that in the call
	longest time.Duration   // of the others
	bytes   int
}

// timed takes the running times out of a report, if somebody watches.
func (e *Engine) timed(b *batch, r *wire.Results, frames [][]byte) *timing {
	if !e.opts.Events.On() {
		return nil
	}
	t := &timing{at: b.heard, run: time.Duration(r.Nanos), each: r.Times, longest: time.Duration(r.Longest)}
	for i := range t.each {
		t.each[i].Index += b.lo
	}
	for _, f := range frames {
		t.bytes += len(f)
	}
	return t
}

// tasksEnded tells of an outcome: of each task that took a millisecond or more, and of the others together.
func (e *Engine) tasksEnded(c *Call, o *Outcome, unread []int) {
	if !e.opts.Events.On() {
		return
	}
	t := o.timing
	if t == nil {
		t = &timing{at: time.Now()}
	}
	var reason map[int]string
	if len(o.Failures)+len(unread) > 0 {
		reason = map[int]string{}
	}
	for _, f := range o.Failures {
		reason[f.Index] = cut(f.Err)
	}
	for _, i := range unread {
		reason[i] = unreadable
	}
	rest := event.Tasks{Pool: e.opts.Label, Call: c.number, Func: c.opts.Func, Worker: o.Worker, Index: o.Lo, Count: o.N, Ended: t.at, Took: t.run, Bytes: t.bytes}
	count := func(what *event.Tasks, index int) {
		if why, failed := reason[index]; failed {
			what.Failed++
			what.Err = cmp.Or(what.Err, why)
		}
		if slices.Contains(o.Again, index) {
			what.Again++
		}
	}
	for _, x := range t.each {
		one := rest
		one.Index, one.Count, one.Attempt = x.Index, 1, 1+o.Reruns[x.Index]
		one.Took = time.Duration(x.Nanos)
		one.Longest, one.Began = one.Took, t.at.Add(-time.Duration(x.Ago))
		one.Ended, one.Bytes = one.Began.Add(one.Took), t.bytes/o.N
		count(&one, x.Index)
		e.opts.Events.Tell(one)
		rest.Count--
		rest.Took -= one.Took
	}
	if rest.Count <= 0 {
		return
	}
	rest.Took = max(rest.Took, 0)
	rest.Longest = min(cmp.Or(t.longest, rest.Took/time.Duration(rest.Count)), rest.Took) // it may be of a task that is not reported yet
	rest.Began = t.at.Add(-t.run)
	rest.Bytes = t.bytes * rest.Count / o.N
	byItself := func(i int) bool {
		return slices.ContainsFunc(t.each, func(x wire.TaskTime) bool { return x.Index == i })
	}
	for byItself(rest.Index) {
		rest.Index++
	}
	if rest.Count == 1 {
		rest.Attempt = 1 + o.Reruns[rest.Index]
	}
	if len(reason)+len(o.Again) > 0 {
		for i := rest.Index; i < o.Lo+o.N; i++ {
			if !byItself(i) {
				count(&rest, i)
			}
		}
	}
	e.opts.Events.Tell(rest)
}

// unreadable is the error of a task whose result the caller can't decode, for those who watch.
const unreadable = "its result could not be decoded"

// cut returns the text of an error, of which not everything may be worth the memory of all who watch.
func cut(err error) string {
	const most = 4 << 10
	text := err.Error()
	return text[:min(len(text), most)]
}

// workerEnded tells of a worker's end.
func (e *Engine) workerEnded(w *worker, what event.WorkerEnded) {
	if e.opts.Events.On() {
		what.Pool, what.Worker = e.opts.Label, w.name
		e.opts.Events.Tell(what)
	}
}
