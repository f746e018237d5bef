package engine

import (
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// Process is a worker's process, as the engine sees it.
type Process interface {
	Name() string
	ID() string // what runs it calls it so
	// Resident is how many bytes of it were in memory when it last said so.
	Resident() int64
	// Post queues a message; it does not block.
	Post(frames ...[]byte) error
	// StepAside, Attend and Lead say who reads its messages; see launch.Child.
	StepAside()
	Attend()
	Lead(done <-chan struct{})
	// Stop asks it to end when it holds nothing more.
	Stop()
	Terminate() error
	Kill(reason string) error
	// Gone is closed when all its messages were handled and no more will come.
	Gone() <-chan struct{}
	// Done is closed when it is known, besides, how it ended.
	Done() <-chan struct{}
	// Told says that it ends because this process does.
	Told() bool
	// Ending says how it ended; only after Done.
	Ending() string
	// Describe is what tells it from others, as attributes for a log.
	Describe() []any
	// Lost is the error of a task that went down with it, or, with no attempts,
	// of its start, when it was lost before it was ready; only after Done.
	Lost(fn string, attempt, attempts int) error
	// Failed is the error of its start when its initializer returned err.
	Failed(err *wire.Error) error
}

// state is a worker's; it moves forward only.
type state int

const (
	starting state = iota // its process or its initializer is not ready
	ready                 // takes tasks
	draining              // finishes what it holds
	gone
)

func (s state) String() string { return [...]string{"starting", "ready", "draining", "gone"}[s] }

// class is how much a worker may be given now; the engine keeps a list of
// workers for each.
type class int

const (
	full class = iota // nothing
	room              // tasks known to be short, behind what it runs
	slot              // a task at once, beside others
	idle              // anything: it holds nothing
	classes
)

// worker is a worker and its row of the pending table.
type worker struct {
	engine *Engine
	name   string
	state  state
	proc   Process
	up     chan struct{} // closed when proc is set, or will never be
	stop   func()        // ends its start

	batches   []*batch // what it holds, in the order of granting
	unsent    []*batch // those of them that are still to be sent
	sending   bool     // somebody sends one of them
	abandoned int      // batches nobody wants that it still runs
	seconds   float64  // estimated running time of what it holds
	bytes     int      // of the inputs it holds
	held      int      // tasks it holds
	given     int      // tasks it was ever given
	done      int      // tasks it has finished
	alone     bool     // runs a suspect
	reserved  bool     // is kept free for a suspect
	recalling bool     // has been asked to give back what it has not started
	late      bool     // has not been heard of since it was recalled from
	ours      bool     // we end it
	leaving   bool     // it ends because somebody else has told it to

	since   time.Time // of the start, then of the last change to idle
	class   class
	listed  bool
	prev    *worker
	next    *worker
	failure error // what its initializer returned
}

// batch is tasks that a worker holds: an entry of the pending table.
type batch struct {
	id    uint64
	w     *worker
	call  *Call
	lo    int       // the first task it was granted
	n     int       // how many it was granted
	next  int       // the first one not reported
	hi    int       // behind the last one that it still is to do
	run   int       // the task announced as started, or -1
	tell  bool      // starts are announced
	solo  bool      // it runs alone, as a suspect
	dead  bool      // nobody waits for it
	cost  float64   // estimated seconds of one task
	size  int       // encoded bytes
	at    time.Time // of the batch, or of giving it up
	heard time.Time // of the last report
}

// brisk says that the batch is one task, and known to be very short.
func (b *batch) brisk() bool { return b.n == 1 && !b.tell && b.cost < inlineSeconds }

// left is the tasks that are not reported.
func (b *batch) left() span { return span{b.next, b.hi} }

// recall has the worker give back what it has not begun.
func (w *worker) recall() { w.proc.Post(wire.MustPack(wire.KindRecall, nil)...) }

// add enters a batch in the pending table.
func (w *worker) add(b *batch) {
	before := w.spare()
	w.batches = append(w.batches, b)
	n := b.left().len()
	w.held += n
	w.given += n
	w.load(b.cost * float64(n))
	w.engine.spare += w.spare() - before
}

// spare is about how many tasks the worker holds without running them. What
// it still runs although nobody wants it takes room away from the others.
func (w *worker) spare() int {
	return max(0, w.held-max(0, w.engine.opts.Concurrency-w.abandoned))
}

// blocked says whether the worker runs nothing but what nobody wants.
func (w *worker) blocked() bool { return w.abandoned >= w.engine.opts.Concurrency }

// load changes the estimate of how long the worker still has to run.
func (w *worker) load(seconds float64) {
	before := w.seconds
	w.seconds = max(0, w.seconds+seconds)
	w.engine.load += w.seconds - before
}

// reduce says that n tasks of a batch are the worker's no longer.
func (w *worker) reduce(b *batch, n int) {
	before := w.spare()
	w.held -= n
	w.load(-b.cost * float64(n))
	w.engine.spare += w.spare() - before
}

// remove takes a batch out of the pending table.
func (w *worker) remove(b *batch) {
	for i, other := range w.batches {
		if other == b {
			w.batches = append(w.batches[:i], w.batches[i+1:]...)
			break
		}
	}
	if b.dead {
		w.giveUp(-1)
	} else {
		w.reduce(b, b.left().len())
	}
	w.bytes -= b.size
	if b.solo {
		w.alone = false
	}
	switch len(w.batches) {
	case 0:
		w.load(-w.seconds)
		w.since = time.Now()
	case w.abandoned:
		w.engine.wake(time.Now()) // it may have been stuck for long
	}
	delete(w.engine.batches, b.id)
}

// stuckSince is when the last of the tasks that it runs was given up; it is
// not stuck while somebody waits for one of them.
func (w *worker) stuckSince() (since time.Time, stuck bool) {
	for _, b := range w.batches {
		if !b.dead {
			return since, false
		}
		if since.Before(b.at) {
			since = b.at
		}
	}
	return since, len(w.batches) > 0
}

// classify says what the worker may be given.
func (w *worker) classify() class {
	e := w.engine
	switch {
	case w.state != ready || w.alone:
		return full
	case len(w.batches) == 0:
		return idle
	case w.reserved || w.recalling:
		return full
	case len(w.batches) < e.opts.Concurrency:
		return slot
	case w.abandoned == 0 && !w.late && w.seconds < pipelineSeconds*float64(e.opts.Concurrency) &&
		len(w.batches) < e.opts.Concurrency+pipelineBatches && w.bytes < pipelineBytes:
		return room
	}
	return full
}

// workerList is the workers of one class.
type workerList struct{ first, last *worker }

func (l *workerList) pushFront(w *worker) {
	w.next = l.first
	if l.first != nil {
		l.first.prev = w
	} else {
		l.last = w
	}
	l.first = w
}

func (l *workerList) pushBack(w *worker) {
	w.prev = l.last
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
}

func (l *workerList) remove(w *worker) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.prev, w.next = nil, nil
}

// reclass moves a worker to the list of what it may be given now. Idle
// workers are taken last come first, so that surplus ones stay idle; workers
// with room take turns.
func (e *Engine) reclass(w *worker) {
	class := w.classify()
	if w.listed {
		if class == w.class {
			return
		}
		e.lists[w.class].remove(w)
		e.count[w.class]--
	}
	w.class, w.listed = class, class != full
	if !w.listed {
		return
	}
	e.count[class]++
	if class == idle {
		e.lists[class].pushFront(w)
	} else {
		e.lists[class].pushBack(w)
	}
}
