// Package turn says whose turn it is to read a connection. That is a
// goroutine of the connection's own. But a caller that asks for one short thing
// after another reads its answers itself, which saves each of them the way from
// one goroutine to another, half of what a round trip costs: after a brisk
// exchange the connection's goroutine steps aside for a moment, and whoever asks
// next may lead.
package turn

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/transport"
)

// Turn is who reads a connection.
type Turn struct {
	read func() error // reads and handles one message
	conn Conn

	state  atomic.Int32
	aside  atomic.Bool   // step aside after this message
	led    atomic.Uint32 // how often somebody led
	resume chan struct{} // the connection's goroutine is to read at once
	err    error         // what a caller met; it goes with the turn
}

// The states of a turn.
const (
	own  = iota // the connection's goroutine reads
	open        // nobody reads; whoever comes may lead
	lent        // a caller reads
)

// moment is how long the connection's goroutine stays aside when nobody leads,
// and how long a caller may lead when nothing comes.
const moment = time.Millisecond

// Conn is a transport.Conn, as far as it matters here.
type Conn interface {
	Interrupt()
	Linger(yes bool)
}

// New makes a turn: read waits for a message of the connection's and handles
// it.
func New(read func() error, conn Conn) *Turn {
	return &Turn{read: read, conn: conn, resume: make(chan struct{}, 1)}
}

// StepAside lets a caller read the next messages; see Lead. It is called while
// a message is handled.
func (t *Turn) StepAside() { t.aside.Store(true) }

// Attend has the connection read at once, by somebody. It is called after
// something was posted whose answer the caller does not wait for by Lead.
func (t *Turn) Attend() {
	if t.state.Load() == open {
		t.wake()
	}
}

func (t *Turn) wake() {
	select {
	case t.resume <- struct{}{}:
	default:
	}
}

// Lead reads and handles messages until done says so, and a moment at most
// when nothing comes. It returns at once when it is not the caller's turn. When
// it returns before done, somebody else reads.
func (t *Turn) Lead(done func() bool) {
	if !t.state.CompareAndSwap(open, lent) {
		return
	}
	if t.err != nil {
		t.state.Store(open)
		return
	}
	t.led.Add(1)
	t.conn.Linger(true) // nobody else has anything to do with what comes
	finished := false
	defer func() {
		// Also when what handles a message panics.
		t.aside.Store(false)
		t.conn.Linger(false)
		t.state.Store(open)
		if !finished {
			t.wake()
		}
	}()
	for {
		if done() {
			finished = true
			return
		}
		if err := t.read(); err != nil {
			if !errors.Is(err, transport.ErrInterrupted) {
				t.err = err
			}
			return
		}
	}
}

// stayAside waits until it is the connection's own goroutine's turn again.
func (t *Turn) stayAside() {
	t.state.Store(open)
	tick := time.NewTicker(moment)
	defer tick.Stop()
	for led := t.led.Load(); ; {
		resumed := false
		select {
		case <-t.resume:
			resumed = true
		case <-tick.C:
		}
		now := t.led.Load()
		if (resumed || now == led) && t.state.CompareAndSwap(open, own) {
			return
		}
		if now == led && t.state.Load() == lent {
			t.conn.Interrupt() // the same caller since the last tick
		}
		led = now
	}
}

// Read handles messages until the connection ends. The connection's own
// goroutine calls it.
func (t *Turn) Read() error {
	for {
		switch err := t.read(); {
		case errors.Is(err, transport.ErrInterrupted):
		case err != nil:
			return err
		case t.aside.Swap(false):
			t.stayAside()
			if t.err != nil {
				return t.err
			}
		}
	}
}
