package engine

import (
	"container/heap"
	"time"
)

// survey says what the workers hold, and which of them have room for more.
type survey struct {
	spare     int              // tasks that workers hold but do not run
	abandoned int              // unwanted batches that they still run
	load      time.Duration    // estimated running time of all that they hold
	up        int              // workers that are ready
	count     [classes]int     // workers in each class
	best      [classes]*worker // whose turn it is in each class but full
}

// free returns how many workers could begin a task at once.
func (s *survey) free() int { return s.count[idle] + s.count[slot] }

// roster keeps the survey of an engine's workers, so that an event costs as much among ten thousand as among ten. Whatever changes
// what is counted of a worker calls its changed; those workers are counted anew when the survey is asked for.
type roster struct {
	changed []*worker
	sum     survey // of all as they were counted, without the best
	states  [gone + 1]int
	turns   [classes]turns // those in each class but full
}

// counted is a worker as the roster has counted it last.
type counted struct {
	any              bool
	state            state
	class            class
	spare, abandoned int
	load             time.Duration
	held             int
	since            time.Time
	at               int // its place in turns
}

// longLoad is the most seconds that tasks count for: work for a few milliseconds is enough for a worker.
const longLoad = 1000

// changed has the worker counted anew. The engine's lock is held.
func (w *worker) changed() {
	if !w.uncounted {
		w.uncounted = true
		w.engine.roster.changed = append(w.engine.roster.changed, w)
	}
}

// count brings the roster up to date.
func (r *roster) count() {
	for i, w := range r.changed {
		r.changed[i] = nil
		w.uncounted = false
		was := w.counted
		w.counted = counted{at: was.at}
		if w.state != gone {
			w.counted = counted{true, w.state, w.class(), w.spare(), w.holds.abandoned,
				min(w.holds.time, longLoad*time.Second), w.holds.tasks, w.since, was.at}
		}
		r.add(&was, -1)
		r.add(&w.counted, 1)
		now := w.counted
		switch {
		case now.class != was.class:
			if was.class != full {
				heap.Remove(&r.turns[was.class], was.at)
			}
			if now.class != full {
				heap.Push(&r.turns[now.class], w)
			}
		case now.class != full:
			heap.Fix(&r.turns[now.class], now.at)
		}
	}
	r.changed = r.changed[:0]
}

func (r *roster) add(c *counted, sign int) {
	if !c.any {
		return
	}
	s := &r.sum
	s.spare += sign * c.spare
	s.abandoned += sign * c.abandoned
	s.load += time.Duration(sign) * c.load
	s.count[c.class] += sign
	r.states[c.state] += sign
}

// survey looks at all workers. Of the idle ones, the last to become idle is
// best, so that surplus ones stay idle; of others, the one that holds the least.
func (e *Engine) survey() survey {
	e.roster.count()
	s := e.roster.sum
	s.up = e.roster.states[ready]
	for class, turns := range e.roster.turns {
		if len(turns) > 0 {
			s.best[class] = turns[0]
		}
	}
	return s
}

// in returns how many workers are in one of the states.
func (e *Engine) in(states ...state) (n int) {
	e.roster.count()
	for _, s := range states {
		n += e.roster.states[s]
	}
	return n
}

// turns is a heap of the workers of a class. Whose turn it is comes first.
type turns []*worker

func (t turns) Len() int { return len(t) }

func (t turns) Less(i, j int) bool {
	a, b := &t[i].counted, &t[j].counted
	switch {
	case a.class == idle && !a.since.Equal(b.since):
		return b.since.Before(a.since)
	case a.class != idle && a.held != b.held:
		return a.held < b.held
	}
	return t[i].number < t[j].number
}

func (t turns) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].counted.at, t[j].counted.at = i, j
}

func (t *turns) Push(w any) {
	w.(*worker).counted.at = len(*t)
	*t = append(*t, w.(*worker))
}

func (t *turns) Pop() any {
	last := len(*t) - 1
	w := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return w
}
