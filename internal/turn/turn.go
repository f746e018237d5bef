// Package turn says whose turn it is to read a connection. One goroutine at a
// time has the turn. It hands it on in two cases, each of which saves what comes
// the way from one goroutine to another, half of what a round trip costs:
//
//   - A caller that asks for one short thing after another reads its answers
//     itself. After a brisk exchange the reading goroutine steps aside, and
//     whoever asks next leads.
//   - What comes and is short is run by the goroutine that has read it.
//
// In both, nobody has the turn for a while; another goroutine takes it when that
// lasts for a moment.
package turn

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/transport"
)

// Turn is who reads a connection.
type Turn struct {
	conn  Conn
	read  func() (run func(), err error)
	ended func(err error)

	state   atomic.Uint64 // who has the turn, in the low bits, and how often that has changed
	aside   atomic.Bool   // step aside after this message
	watched atomic.Bool   // look comes back
	seen    uint64        // the state at the last look; of whoever watches
}

// Who has the turn.
const (
	nobody = iota
	reader     // who goes on reading
	leader     // a caller, for a while
	whose  = 3 // the bits
)

// moment is how often a turn is looked after: what lasts from one look to the
// next lasts too long.
const moment = time.Millisecond

// Conn is a transport.Conn, as far as it matters here.
type Conn interface {
	Interrupt()
	Linger(yes bool)
}

// New makes a turn; Read begins. read waits for a message and handles it; it may
// return something short that is to run next, before anything else is read unless
// it takes longer. ended is called once, with the error with which read ended.
func New(conn Conn, read func() (run func(), err error), ended func(err error)) *Turn {
	t := &Turn{conn: conn, read: read, ended: ended}
	t.state.Store(reader)
	return t
}

// Read handles messages until the connection ends or another goroutine does. It
// is called once, by whoever reads first.
func (t *Turn) Read() {
	for {
		switch run, err := t.read(); {
		case errors.Is(err, transport.ErrInterrupted):
		case err != nil:
			t.ended(err) // with the turn, which nobody gets any more
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

// run runs what is short and says whether the goroutine still has the turn. f
// may end the goroutine.
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

// changed is the state after another change.
func changed(state, who uint64) uint64 { return state&^whose + whose + 1 + who }

// pass gives the turn, which the caller has, to somebody else.
func (t *Turn) pass(who uint64) (state uint64) {
	state = changed(t.state.Load(), who)
	t.state.Store(state)
	t.watch()
	return state
}

// take takes the turn if nobody has it.
func (t *Turn) take(who uint64) bool {
	state := t.state.Load()
	return state&whose == nobody && t.state.CompareAndSwap(state, changed(state, who))
}

// StepAside lets a caller read the next messages; see Lead. It is called while
// a message is handled.
func (t *Turn) StepAside() { t.aside.Store(true) }

// Attend has the connection read at once, by somebody. It is called after
// something was posted whose answer the caller does not wait for by Lead.
func (t *Turn) Attend() {
	if t.take(reader) {
		go t.Read()
	}
}

// Lead reads and handles messages until done says so, and for a moment or two
// when nothing comes. It returns at once when somebody else has the turn. When it
// returns before done, somebody else reads.
func (t *Turn) Lead(done func() bool) {
	if !t.take(leader) {
		return
	}
	t.watch()
	t.conn.Linger(true) // nobody else has anything to do with what comes
	next := t.Read
	defer func() {
		// Also when what handles a message panics.
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
			run() // whoever leads waits for it
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

// watch has the turn looked after until somebody reads who is to go on reading.
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
	case state != t.seen: // it goes to and fro
	case state&whose == nobody && t.take(reader):
		t.watched.Store(false)
		t.Read()
		return
	case state&whose == leader:
		t.conn.Interrupt()
	case state&whose == reader:
		t.watched.Store(false)
		if t.state.Load() != state {
			t.watch() // it was passed on in between
		}
		return
	}
	t.lookAgain()
}
