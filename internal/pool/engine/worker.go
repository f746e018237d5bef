package engine

import (
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// Process is a worker's process, as the engine sees it.
type Process interface {
	Name() string
	ID() string // in its backend
	// Resident returns how many of its bytes were in memory at its last report.
	Resident() int64
	// Post queues a message; it does not block.
	Post(frames ...[]byte) error
	// StepAside, Attend and Lead decide which goroutine reads its messages; see
	// tree.Child.
	StepAside()
	Attend()
	Lead(done <-chan struct{})
	// Stop asks it to end once it holds no tasks.
	Stop()
	Terminate() error
	Kill(reason string) error
	// Gone is closed when its last message has been handled.
	Gone() <-chan struct{}
	// Done is closed after Gone, when it is also known how the process ended.
	Done() <-chan struct{}
	// Told reports whether it ends because this process does.
	Told() bool
	// Ending describes how it ended; only after Done.
	Ending() string
	// Describe returns attributes that identify it in a log.
	Describe() []any
	// Lost returns the error of a task that went down with it or, with no
	// attempts, of the start of a worker that was lost before it was ready;
	// only after Done.
	Lost(fn string, attempt, attempts int) error
	// Failed returns the error of its start when its initializer returned err.
	Failed(err *wire.Error) error
}

// state is where a worker is in its life; it only moves forward.
type state int

const (
	starting state = iota // its process or its initializer is not ready
	ready                 // takes tasks
	draining              // finishes what it holds
	gone
)

func (s state) String() string { return [...]string{"starting", "ready", "draining", "gone"}[s] }

// class is how much a worker may be given now. The engine keeps a list of
// workers for each class.
type class int

const (
	full class = iota // nothing
	room              // tasks known to be short, behind those that it runs
	slot              // a task at once, beside others
	idle              // anything: it holds nothing
	classes
)

// worker is a worker with its row of the pending table.
type worker struct {
	engine *Engine
	name   string
	state  state
	proc   Process
	up     chan struct{} // closed when proc is set, or the start has failed
	stop   func()        // cancels its start

	batches   []*batch // what it holds, in the order of handing out
	unsent    []*batch // of these, the ones still to be sent
	sending   bool     // a goroutine is sending one of them
	abandoned int      // unwanted batches that it still runs
	seconds   float64  // estimated running time of what it holds
	bytes     int      // encoded size of the inputs it holds
	held      int      // tasks it holds
	given     int      // tasks it was ever given
	done      int      // tasks it has finished
	alone     bool     // it runs a suspect
	reserved  bool     // it is kept free for a suspect
	recalling bool     // it was asked to give back what it has not started
	late      bool     // it has reported no results since it was recalled from
	ours      bool     // the engine ends it
	leaving   bool     // it was told to end from outside

	since   time.Time // when it was started, became ready or last became idle
	class   class
	listed  bool
	prev    *worker
	next    *worker
	failure error // what its initializer returned
}

// batch is some consecutive tasks of a call that a worker holds: an entry of
// the pending table.
type batch struct {
	id    uint64
	w     *worker
	call  *Call
	lo    int       // its first task
	n     int       // how many tasks it had when handed out
	next  int       // the first task not reported
	hi    int       // one past the last task still to be done
	run   int       // the task announced as started, or -1
	tell  bool      // starts are announced
	solo  bool      // it runs alone, as a suspect
	dead  bool      // it is unwanted
	cost  float64   // estimated seconds per task
	size  int       // encoded bytes
	at    time.Time // when it was handed out, or abandoned
	heard time.Time // when its last report came
}

// brisk reports whether the batch is a single task known to be very short.
func (b *batch) brisk() bool { return b.n == 1 && !b.tell && b.cost < inlineSeconds }

// left returns the tasks that are not reported yet.
func (b *batch) left() span { return span{b.next, b.hi} }

// recall asks the worker to give back what it has not begun.
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

// spare returns about how many tasks the worker holds but does not run.
// Unwanted tasks that it still runs take room away from the others.
func (w *worker) spare() int {
	return max(0, w.held-max(0, w.engine.opts.Concurrency-w.abandoned))
}

// blocked reports whether the worker runs nothing but unwanted tasks.
func (w *worker) blocked() bool { return w.abandoned >= w.engine.opts.Concurrency }

// load adds to the estimate of how much work the worker still has.
func (w *worker) load(seconds float64) {
	before := w.seconds
	w.seconds = max(0, w.seconds+seconds)
	w.engine.load += w.seconds - before
}

// reduce records that n tasks of a batch are no longer the worker's.
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
		w.engine.wake(time.Now()) // only unwanted batches are left: it may have been stuck for long
	}
	delete(w.engine.batches, b.id)
}

// stuckSince returns when the last of the worker's batches was abandoned. While
// one of them is wanted, the worker is not stuck.
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

// classify returns what the worker may be given.
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

// workerList lists the workers of one class.
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

// reclass moves a worker to the list of its class. Idle workers are taken last
// in, first out, so that surplus ones stay idle; workers with room take turns.
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
