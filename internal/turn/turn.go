// Package turn decides which goroutine reads a connection. One goroutine at a
// time has the turn. It hands the turn on in two cases; each saves waking
// another goroutine for a message, which is half the cost of a round trip:
//
//   - A caller that sends one short request after another reads its answers
//     itself. After a brisk exchange the reading goroutine steps aside, and the
//     next caller leads.
//   - Work that a message brings is run by the goroutine that has read it,
//     since it is most often short.
//
// In both cases the turn is free for a while. If that lasts for a moment,
// another goroutine takes it.
package turn

import (
	"context"
	"sync/atomic"
	"time"
)

// Turn is the right to read a connection.
type Turn struct {
	await func() bool
	read  func(ctx context.Context) (run func(), err error)
	ended func(err error)

	changes atomic.Uint64 // how often the turn was taken or freed: odd while a goroutine has it
	aside   atomic.Bool   // the reader is to step aside after this message
	watched atomic.Bool   // look is due to run
	seen    uint64        // the changes at the last look; only for the goroutine that looks
}

// moment is the interval at which a turn is checked: a state that lasts from
// one check to the next lasts too long.
const moment = time.Millisecond

// New makes a turn, whose first reader is the caller of Read. await is the
// connection's Await, which only leaders need. read waits for a
// message and handles it; it may return a function that is to run next.
// If that takes longer than a moment, another goroutine reads on meanwhile.
// When a leader's context ends, read returns the context's error, and the next
// call goes on where this one has stopped. ended is called once, with the error
// that ended read.
func New(await func() bool, read func(ctx context.Context) (run func(), err error), ended func(err error)) *Turn {
	t := &Turn{await: await, read: read, ended: ended}
	t.changes.Store(1)
	return t
}

// Read handles messages until the connection ends or the goroutine has lost the
// turn. The owner of the connection calls Read once.
func (t *Turn) Read() {
	for {
		switch run, err := t.read(context.Background()); {
		case err != nil:
			t.ended(err) // and keep the turn for good
			return
		case run != nil:
			if !t.run(run) {
				return
			}
		case t.aside.Swap(false):
			t.free()
			return
		}
	}
}

// run calls f and reports whether the goroutine still has the turn. f may end the
// goroutine.
func (t *Turn) run(f func()) (still bool) {
	left, returned := t.free(), false
	defer func() {
		still = t.changes.CompareAndSwap(left, left+1)
		if still && !returned {
			go t.Read()
		}
	}()
	f()
	returned = true
	return
}

// free frees the turn, which the caller has.
func (t *Turn) free() (changes uint64) {
	changes = t.changes.Add(1)
	t.watch()
	return changes
}

// take takes the turn if it is free.
func (t *Turn) take() bool {
	changes := t.changes.Load()
	return changes%2 == 0 && t.changes.CompareAndSwap(changes, changes+1)
}

// StepAside frees the turn after the message that is being handled, so that a
// caller can read the next ones; see Lead.
func (t *Turn) StepAside() { t.aside.Store(true) }

// Attend makes a goroutine read at once if the turn is free. Call it after
// posting a request whose answer the caller does not wait for in Lead.
func (t *Turn) Attend() {
	if t.take() {
		go t.Read()
	}
}

// Lead reads and handles messages in the calling goroutine until done returns
// true or ctx ends, as long as they come in quick succession. It returns at once
// when another goroutine has the turn. When it returns before done is true,
// another goroutine reads.
func (t *Turn) Lead(ctx context.Context, done func() bool) {
	if !t.take() {
		return
	}
	next := t.Read
	defer func() {
		// Also when the handling of a message panics.
		t.aside.Store(false)
		if next == nil {
			t.free()
		} else {
			go next()
		}
	}()
	for !done() {
		if ctx.Err() != nil || !t.await() {
			return
		}
		run, err := t.read(ctx)
		if run != nil {
			run() // the leader waits for it
		}
		if err != nil {
			if err != ctx.Err() {
				next = func() { t.ended(err) }
			}
			return
		}
	}
	next = nil
}

// Closed returns a done for Lead: whether a channel is closed.
func Closed(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}

// watch checks a free turn every moment until a goroutine has it that keeps it.
func (t *Turn) watch() {
	if !t.watched.Load() && t.watched.CompareAndSwap(false, true) {
		t.lookAgain()
	}
}

func (t *Turn) lookAgain() {
	t.seen = t.changes.Load()
	time.AfterFunc(moment, t.look)
}

func (t *Turn) look() {
	changes := t.changes.Load()
	switch {
	case changes != t.seen: // the turn is passed to and fro
		t.lookAgain()
	case changes%2 == 1:
		t.watched.Store(false)
		if t.changes.Load() != changes {
			t.watch() // the turn was freed in between
		}
	case t.take():
		t.watched.Store(false)
		t.Read()
	default:
		t.lookAgain()
	}
}
