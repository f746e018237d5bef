package launch

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/transport"
)

// turn says whose turn it is to read what a child says. That is a goroutine of
// the child's own. But a caller that asks for one short thing after another
// reads its answers itself, which saves each of them the way from one goroutine
// to another, half of what a round trip costs: after a brisk exchange the
// child's goroutine steps aside for a moment, and whoever asks next may lead.
type turn struct {
	state  atomic.Int32
	aside  atomic.Bool   // step aside after this message
	led    atomic.Uint32 // how often somebody led
	resume chan struct{} // the child's goroutine is to read at once
	err    error         // what a caller met; it goes with the turn
}

// The states of a turn.
const (
	own  = iota // the child's goroutine reads
	open        // nobody reads; whoever comes may lead
	lent        // a caller reads
)

// moment is how long the child's goroutine stays aside when nobody leads, and
// how long a caller may lead when nothing comes.
const moment = time.Millisecond

// StepAside lets a caller read the child's next messages; see Lead. It is
// called while a message is handled.
func (c *Child) StepAside() { c.turn.aside.Store(true) }

// Attend has what the child says read at once, by somebody. It is called after
// something was posted whose answer the caller does not wait for by Lead.
func (c *Child) Attend() {
	if c.turn.state.Load() == open {
		c.turn.wake()
	}
}

func (t *turn) wake() {
	select {
	case t.resume <- struct{}{}:
	default:
	}
}

// Lead reads and handles what the child says until done is closed, and a
// moment at most when nothing comes. It returns at once when it is not the
// caller's turn. When it returns before done is closed, somebody else reads.
func (c *Child) Lead(done <-chan struct{}) {
	t := &c.turn
	if !t.state.CompareAndSwap(open, lent) {
		return
	}
	if t.err != nil {
		t.state.Store(open)
		return
	}
	t.led.Add(1)
	finished := false
	defer func() {
		// Also when a function of the user's that is told of a result panics.
		t.aside.Store(false)
		t.state.Store(open)
		if !finished {
			t.wake()
		}
	}()
	for {
		select {
		case <-done:
			finished = true
			return
		default:
		}
		if err := c.readOne(); err != nil {
			if !errors.Is(err, transport.ErrInterrupted) {
				t.err = err
			}
			return
		}
	}
}

// stayAside waits until it is the child's own goroutine's turn again.
func (c *Child) stayAside() {
	t := &c.turn
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
			c.conn.Interrupt() // the same caller since the last tick
		}
		led = now
	}
}

// read handles what the child says until its connection ends.
func (c *Child) read() error {
	for {
		switch err := c.readOne(); {
		case errors.Is(err, transport.ErrInterrupted):
		case err != nil:
			return err
		case c.turn.aside.Swap(false):
			c.stayAside()
			if c.turn.err != nil {
				return c.turn.err
			}
		}
	}
}
