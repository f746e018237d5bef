package engine

import (
	"context"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// Process is a worker's process, as the engine sees it.
type Process interface {
	ID() string // in its backend
	// Memory returns what it had in memory at its last report.
	Memory() wire.Status
	// Post queues a message; it does not block.
	Post(frames ...[]byte) error
	// Queue is Post for a message that may wait for the next one, or for Push.
	Queue(frames ...[]byte) error
	Push()
	// Expect follows each batch whose results no caller waits for in Wait.
	Expect()
	// Wait waits until done is closed, or returns the ctx's error. The calling
	// goroutine may handle messages meanwhile.
	Wait(ctx context.Context, done <-chan struct{}) error
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
	// Lost returns the error of a task that went down with it at its last
	// attempt or, with no attempts, of the start of a worker that ended before it
	// was ready, since its initializer failed for example; only after Done.
	Lost(fn string, attempts int) error
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

// class is how much a worker may be given now.
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
	number int // of its start
	state  state
	proc   Process
	up     chan struct{} // closed when proc is set, or the start has failed
	stop   func()        // cancels its start

	batches   row    // what it holds
	unsent    row    // of these, the ones still to be sent
	sending   *batch // the one of them that a goroutine is sending
	watched   *batch // the one that was being sent when tick last ran
	sends     bool   // it is among the engine's senders
	given     int    // tasks it was ever given
	done      int    // tasks it has finished
	reserved  bool   // it is kept free for a suspect
	recalling bool   // it was asked to give back what it has not started
	late      bool   // it has reported no results since it was recalled from
	ours      bool   // the engine ends it
	leaving   bool   // it was told to end from outside, or is broken
	broken    bool   // a task has said that it is to be replaced

	heard bool       // results have come that nothing was decided after; the reader's
	came  *[]arrival // what of them is to be delivered, nil for nothing; the reader's

	since time.Time // when it was started, became ready or last became idle

	holds load // of all its batches

	counted   counted
	uncounted bool // it has changed since
}

// load is work that a worker holds.
type load struct {
	tasks     int           // wanted ones
	time      time.Duration // their estimated running time
	bytes     int           // encoded size of the inputs
	abandoned int           // unwanted batches that it still runs
	suspects  int           // batches that run alone
}

func (l *load) add(other load, sign int) {
	l.tasks += sign * other.tasks
	l.time += time.Duration(sign) * other.time
	l.bytes += sign * other.bytes
	l.abandoned += sign * other.abandoned
	l.suspects += sign * other.suspects
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
	try   int       // which attempt of its first task it is
	tell  bool      // starts are announced
	begun bool      // its only task begins when it comes: a slot is free
	sent  bool      // it was posted
	solo  bool      // it runs alone, as a suspect
	dead  bool      // it is unwanted
	cost  float64   // estimated seconds per task
	size  int       // encoded bytes
	at    time.Time // when it was handed out, or abandoned
	heard time.Time // when its last report came

	places  [kinds]place
	counted load // its share of its worker's load
}

// brief reports whether the batch is a single task known to be very short.
func (b *batch) brief() bool { return b.n == 1 && !b.tell && b.cost < briefSeconds }

// inline reports whether the batch runs on the goroutine that reads the worker's messages: it will be done before that is
// missed, and the worker could not run another one meanwhile, or not much sooner.
func (b *batch) inline() bool {
	return b.brief() || !b.tell && b.w.engine.opts.Concurrency == 1 && b.cost*float64(b.n) <= chunkSeconds
}

// left returns the tasks that are not reported yet.
func (b *batch) left() span { return span{b.next, b.hi} }

// load returns the batch's share of its worker's load.
func (b *batch) load() load {
	l := load{bytes: b.size}
	if b.solo {
		l.suspects = 1
	}
	if b.dead {
		l.abandoned = 1
		return l
	}
	l.tasks = b.left().len()
	l.time = time.Duration(min(b.cost*float64(l.tasks), longLoad) * float64(time.Second))
	return l
}

// tally counts the batch anew among what its worker holds. Whatever changes the batch calls it.
func (b *batch) tally() { b.count(b.load()) }

// count puts a batch's new share of its worker's load in the place of the last one.
func (b *batch) count(now load) {
	b.w.holds.add(b.counted, -1)
	b.w.holds.add(now, 1)
	b.counted = now
	b.w.changed()
}

// find returns one of the worker's batches, or nil if it holds no such batch.
func (w *worker) find(id uint64) *batch {
	if b := w.engine.batches[id]; b != nil && b.w == w {
		return b
	}
	return nil
}

// spare returns about how many tasks the worker holds but does not run.
// Unwanted tasks that it still runs take room away from the others.
func (w *worker) spare() int {
	return max(0, w.holds.tasks-max(0, w.engine.opts.Concurrency-w.holds.abandoned))
}

// blocked reports whether the worker runs nothing but unwanted tasks.
func (w *worker) blocked() bool { return w.holds.abandoned >= w.engine.opts.Concurrency }

// stalled reports whether it has taken long to encode what the worker is to be
// sent.
func (w *worker) stalled() bool { return w.sending != nil && w.watched == w.sending }

// send notes which batch is being sent, nil for none.
func (w *worker) send(b *batch) {
	if w.stalled() {
		w.changed()
	}
	w.sending = b
}

// reserve keeps the worker for a suspect, or for anything.
func (w *worker) reserve(yes bool) {
	if w.reserved != yes {
		w.reserved = yes
		w.changed()
	}
}

// Idle reports whether the worker holds nothing.
func (w *worker) Idle() bool {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	return w.batches.n == 0
}

// remove takes a batch out of the pending table.
func (w *worker) remove(b *batch) {
	delete(w.engine.batches, b.id)
	w.batches.remove(b)
	b.call.held.remove(b)
	b.count(load{})
	if w.batches.n == 0 {
		w.since = time.Now()
	}
}

// stuckSince returns when the last of the worker's batches was abandoned. While
// one of them is wanted, the worker is not stuck.
func (w *worker) stuckSince() (since time.Time, stuck bool) {
	for b := range w.batches.all() {
		if !b.dead {
			return since, false
		}
		if since.Before(b.at) {
			since = b.at
		}
	}
	return since, w.batches.n > 0
}

// class returns what the worker may be given.
func (w *worker) class() class {
	e := w.engine
	switch {
	case w.state != ready || w.ours || w.holds.suspects > 0:
		return full
	case w.batches.n == 0:
		return idle
	case w.reserved || w.recalling || w.stalled():
		return full
	case w.batches.n < e.opts.Concurrency:
		return slot
	case w.holds.abandoned == 0 && !w.late && w.holds.time.Seconds() < pipelineSeconds*float64(e.opts.Concurrency) &&
		w.batches.n < e.opts.Concurrency+pipelineBatches && w.holds.bytes < pipelineBytes:
		return room
	}
	return full
}
