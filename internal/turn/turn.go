// Package turn decides which goroutine reads a connection. One goroutine at a
// time has the turn. It hands the turn on in two cases; each saves waking
// another goroutine for a message, which is half the cost of a round trip:
//
//   - A caller that sends one short request after another reads its answers
//     itself. After a brisk exchange the reading goroutine steps aside, and the
//     next caller leads.
//   - Short work that a message brings is run by the goroutine that has read
//     it.
//
// In both cases the turn is free for a while. If that lasts for a moment,
// another goroutine takes it.
package turn

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/transport"
)

// Turn is the right to read a connection.
type Turn struct {
	conn  Conn
	read  func() (run func(), err error)
	ended func(err error)

	state   atomic.Uint64 // who has the turn in the low bits, above them the number of changes
	aside   atomic.Bool   // the reader is to step aside after this message
	watched atomic.Bool   // look is due to run
	seen    uint64        // the state at the last look; only for the goroutine that looks
}

// Who has the turn.
const (
	nobody = iota
	reader     // a goroutine that goes on reading
	leader     // a caller, for a while
	whose  = 3 // the mask of these
)

// moment is the interval at which a turn is checked: a state that lasts from
// one check to the next lasts too long.
const moment = time.Millisecond

// Conn is the part of transport.Conn that a Turn uses.
type Conn interface {
	Interrupt()
	Linger(yes bool)
}

// New makes a turn, whose first reader is the caller of Read. read waits for a
// message and handles it; it may return a short function that is to run next.
// If that takes longer than a moment, another goroutine reads on meanwhile.
// ended is called once, with the error that ended read.
func New(conn Conn, read func() (run func(), err error), ended func(err error)) *Turn {
	t := &Turn{conn: conn, read: read, ended: ended}
	t.state.Store(reader)
	return t
}

// Read handles messages until the connection ends or the goroutine has lost the
// turn. The owner of the connection calls Read once.
func (t *Turn) Read() {
	for {
		switch run, err := t.read(); {
		case errors.Is(err, transport.ErrInterrupted):
		case err != nil:
			t.ended(err) // and keep the turn for good
			return
		case run != nil:
			if !t.run(run) {
				return
			}
		case t.aside.Swap(false):
			t.pass(nobody)
			return
		}
	}
}

// run calls f, which should be short, and reports whether the goroutine still
// has the turn. f may end the goroutine.
func (t *Turn) run(f func()) (still bool) {
	left, returned := t.pass(nobody), false
	defer func() {
		still = t.state.CompareAndSwap(left, changed(left, reader))
		if still && !returned {
			go t.Read()
		}
	}()
	f()
	returned = true
	return
}

// changed returns the state after another change.
func changed(state, who uint64) uint64 { return state&^whose + whose + 1 + who }

// pass hands on the turn, which the caller has.
func (t *Turn) pass(who uint64) (state uint64) {
	state = changed(t.state.Load(), who)
	t.state.Store(state)
	t.watch()
	return state
}

// take takes the turn if it is free.
func (t *Turn) take(who uint64) bool {
	state := t.state.Load()
	return state&whose == nobody && t.state.CompareAndSwap(state, changed(state, who))
}

// StepAside frees the turn after the message that is being handled, so that a
// caller can read the next ones; see Lead.
func (t *Turn) StepAside() { t.aside.Store(true) }

// Attend makes a goroutine read at once if the turn is free. Call it after
// posting a request whose answer the caller does not wait for in Lead.
func (t *Turn) Attend() {
	if t.take(reader) {
		go t.Read()
	}
}

// Lead reads and handles messages in the calling goroutine until done returns
// true, or for a moment or two when none come. It returns at once when another
// goroutine has the turn. When it returns before done is true, another
// goroutine reads.
func (t *Turn) Lead(done func() bool) {
	if !t.take(leader) {
		return
	}
	t.watch()
	t.conn.Linger(true) // what comes concerns this goroutine alone
	next := t.Read
	defer func() {
		// Also when the handling of a message panics.
		t.conn.Linger(false)
		t.aside.Store(false)
		if next == nil {
			t.pass(nobody)
			return
		}
		t.pass(reader)
		go next()
	}()
	for !done() {
		run, err := t.read()
		if run != nil {
			run() // the leader waits for it
		}
		if err != nil {
			if !errors.Is(err, transport.ErrInterrupted) {
				next = func() { t.ended(err) }
			}
			return
		}
	}
	next = nil
}

// watch checks the turn every moment until a goroutine has it that goes on
// reading.
func (t *Turn) watch() {
	if t.watched.Load() || !t.watched.CompareAndSwap(false, true) {
		return
	}
	t.lookAgain()
}

func (t *Turn) lookAgain() {
	t.seen = t.state.Load()
	time.AfterFunc(moment, t.look)
}

func (t *Turn) look() {
	state := t.state.Load()
	switch {
	case state != t.seen: // the turn is passed to and fro
	case state&whose == nobody && t.take(reader):
		t.watched.Store(false)
		t.Read()
		return
	case state&whose == leader:
		t.conn.Interrupt()
	case state&whose == reader:
		t.watched.Store(false)
		if t.state.Load() != state {
			t.watch() // the turn was passed on in between
		}
		return
	}
	t.lookAgain()
}
