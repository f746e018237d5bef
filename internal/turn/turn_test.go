package turn_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/turn"
)

// line is a connection on which a test decides what comes.
type line struct {
	*turn.Turn
	says    chan error    // nil: a message
	begin   chan struct{} // the beginning of a message
	came    chan error    // what came to a goroutine that awaits it
	work    chan func()   // a message that brings something to run
	readers atomic.Int32
	read    atomic.Int32
	aside   bool // steps aside after each message
	ended   chan error
}

func newLine(aside bool) *line {
	l := &line{says: make(chan error), begin: make(chan struct{}), came: make(chan error, 1), work: make(chan func()), aside: aside, ended: make(chan error, 1)}
	l.Turn = turn.New(l.Await, func(ctx context.Context) (func(), error) {
		if l.readers.Add(1) != 1 {
			panic("two read")
		}
		defer l.readers.Add(-1)
		var err error
		if len(l.came) > 0 { // what is there comes before the end of ctx
			ctx = context.Background()
		}
		select {
		case err = <-l.came:
		case err = <-l.says:
		case f := <-l.work:
			return f, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err == nil {
			l.read.Add(1)
			if l.aside {
				l.StepAside()
			}
		}
		return nil, err
	}, func(err error) { l.ended <- err })
	go l.Read()
	return l
}

func (l *line) Await() bool {
	select {
	case err := <-l.says:
		l.came <- err
		return true
	case <-l.begin:
		return true
	case <-time.After(2 * time.Millisecond):
		return false
	}
}

var errEnd = errors.New("the end")

// end ends the connection and checks that its own goroutine is told.
func (l *line) end(t *testing.T) {
	l.says <- errEnd
	require.Equal(t, errEnd, <-l.ended)
}

func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.Lead(context.Background(), func() bool { panic("not its turn") })
		l.says <- nil
		synctest.Wait() // aside now
		require.Zero(t, l.readers.Load())
		done := make(chan struct{})
		go func() { l.Lead(context.Background(), func() bool { return l.read.Load() == 3 }); close(done) }()
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

// A leader for whom no message comes is relieved.
func TestLeadInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.says <- nil
		synctest.Wait()
		begun := time.Now()
		l.Lead(context.Background(), func() bool { return false })
		require.LessOrEqual(t, time.Since(begun), 3*time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, l.readers.Load())
		l.end(t)
	})
}

// Attend makes the connection's own goroutine read at once.
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

// The end of the connection is reported even if a leader reads it.
func TestEndWhileSomebodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(true)
		l.says <- nil
		synctest.Wait()
		go l.Lead(context.Background(), func() bool { return false })
		l.end(t)
		l.Lead(context.Background(), func() bool { panic("there is nothing to lead") })
	})
}

// Short work is run by the goroutine that has read it, which goes on reading.
func TestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(false)
		id := func() string { return string(bytes.Fields(debug.Stack())[1]) }
		ran := map[string]int{}
		for range 1000 {
			l.work <- func() { ran[id()]++; time.Sleep(10 * time.Microsecond) }
		}
		l.end(t)
		require.Len(t, ran, 1, "the same goroutine has read all the time")
		time.Sleep(time.Second) // the watching has ended
	})
}

// A goroutine that runs something long is replaced, and reads no more when it
// is done.
func TestShortThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(false)
		gate := make(chan struct{})
		for range 3 {
			l.work <- func() {}
			l.work <- func() { <-gate }
		}
		l.work <- func() {} // another one reads
		synctest.Wait()
		require.EqualValues(t, 1, l.readers.Load())
		close(gate)
		for range 10 {
			l.work <- func() {}
		}
		l.end(t)
	})
}

func TestShortThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(false)
		l.work <- runtime.Goexit
		l.work <- func() {}
		l.end(t)
		time.Sleep(time.Second)
	})
}

// The end of a leader's context ends its lead, although messages keep coming, and
// also in the middle of one. Another goroutine reads on.
func TestContextOfALeader(t *testing.T) {
	for name, busy := range map[string]bool{"busy": true, "in a message": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(true)
				l.says <- nil
				synctest.Wait()
				l.aside = false
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				left := make(chan struct{})
				begun, when := time.Now(), time.Duration(0)
				go func() {
					defer close(left)
					l.Lead(ctx, func() bool { return false })
					when = time.Since(begun)
				}()
				l.says <- nil
				if !busy {
					l.begin <- struct{}{} // and no more of it
				}
				for busy && time.Now().Before(begun.Add(2*time.Second)) {
					time.Sleep(time.Millisecond)
					l.says <- nil
				}
				<-left
				require.Equal(t, time.Second, when.Truncate(10*time.Millisecond))
				l.says <- nil
				l.end(t)
			})
		})
	}
}
