package turn_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/transport"
)

// line is a connection that says what a test has it say.
type line struct {
	*turn.Turn
	says       chan error // nil: a message
	interrupts chan struct{}
	readers    atomic.Int32
	read       atomic.Int32
	aside      bool // steps aside after each message
	ended      chan error
}

func newLine(aside bool) *line {
	l := &line{says: make(chan error), interrupts: make(chan struct{}, 1), aside: aside, ended: make(chan error, 1)}
	l.Turn = turn.New(func() error {
		if l.readers.Add(1) != 1 {
			panic("two read")
		}
		defer l.readers.Add(-1)
		select {
		case err := <-l.says:
			if err == nil {
				l.read.Add(1)
				if l.aside {
					l.StepAside()
				}
			}
			return err
		case <-l.interrupts:
			return transport.ErrInterrupted
		}
	}, l)
	go func() { l.ended <- l.Read() }()
	return l
}

func (l *line) Interrupt()  { l.interrupts <- struct{}{} }
func (l *line) Linger(bool) {}

var errEnd = errors.New("the end")

// end ends the connection and checks that its own goroutine hears of it.
func (l *line) end(t *testing.T) {
	l.says <- errEnd
	require.Equal(t, errEnd, <-l.ended)
}

func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.Lead(func() bool { panic("not its turn") })
		l.says <- nil
		synctest.Wait() // aside now
		require.Zero(t, l.readers.Load())
		done := make(chan struct{})
		go func() { l.Lead(func() bool { return l.read.Load() == 3 }); close(done) }()
		l.says <- nil
		l.says <- nil
		<-done
		synctest.Wait()
		require.Zero(t, l.readers.Load(), "it stays aside for a moment")
		time.Sleep(3 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, l.readers.Load(), "and then reads")
		l.end(t)
	})
}

// A leader to whom nothing comes is relieved.
func TestLeadInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.says <- nil
		synctest.Wait()
		begun := time.Now()
		l.Lead(func() bool { return false })
		require.LessOrEqual(t, time.Since(begun), 3*time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, l.readers.Load())
		l.end(t)
	})
}

// Attend has the connection's own goroutine read at once.
func TestAttend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.says <- nil
		synctest.Wait()
		begun := time.Now()
		l.Attend()
		synctest.Wait()
		require.EqualValues(t, 1, l.readers.Load())
		require.Zero(t, time.Since(begun))
		l.end(t)
	})
}

// An end that a leader meets is the connection's.
func TestEndWhileSomebodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.says <- nil
		synctest.Wait()
		go l.Lead(func() bool { return false })
		l.end(t)
		l.Lead(func() bool { panic("there is nothing to lead") })
	})
}
