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
	*turn.Reader
	says    chan error    // nil: a message
	begin   chan struct{} // the beginning of a message
	came    chan error    // what came to a goroutine that lingers
	readers atomic.Int32
	read    atomic.Int32
	due     atomic.Bool  // an answer is due that no caller waits for
	late    atomic.Bool  // it becomes due when the reader has asked
	asked   atomic.Int32 // how often the reader asked whether one is
	ended   chan error
}

func newLine() *line {
	l := &line{says: make(chan error), begin: make(chan struct{}), came: make(chan error, 1), ended: make(chan error, 1)}
	l.Reader = turn.New(l, func([][]byte) error { l.read.Add(1); return nil }, nil, func() bool { l.asked.Add(1); return !l.due.Swap(l.due.Load() || l.late.Load()) },
		func(err error) { l.ended <- err })
	go l.Serve()
	return l
}

func (l *line) RecvContext(ctx context.Context) ([][]byte, error) {
	if l.readers.Add(1) != 1 {
		panic("two read")
	}
	defer l.readers.Add(-1)
	if len(l.came) > 0 { // what is there comes before the end of ctx
		return nil, <-l.came
	}
	select {
	case err := <-l.says:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *line) Buffered() bool { return false }

func (l *line) Linger() bool {
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

// end ends the connection and checks that its owner is told.
func (l *line) end(t *testing.T) {
	l.says <- errEnd
	require.Equal(t, errEnd, <-l.ended)
}

// readers waits until nothing moves, and checks how many goroutines read.
func (l *line) reading(t *testing.T, n int) {
	t.Helper()
	synctest.Wait()
	require.EqualValues(t, n, l.readers.Load())
}

// free makes the turn free: a caller has waited while another goroutine read.
func (l *line) free() {
	l.Help(context.Background(), func() bool { panic("not its turn") })
	l.says <- nil
	if synctest.Wait(); l.readers.Load() > 0 {
		panic("the turn is not free")
	}
}

// until returns a done for Help: whether so many messages have come.
func (l *line) until(n int32) func() bool { return func() bool { return l.read.Load() == n } }

func TestACallerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.says <- nil
		l.reading(t, 1) // no caller waits
		l.free()
		done := make(chan struct{})
		go func() { l.Help(t.Context(), l.until(4)); close(done) }()
		l.says <- nil
		l.says <- nil
		<-done
		l.reading(t, 0) // it stays free for a moment
		time.Sleep(3 * time.Millisecond)
		l.reading(t, 1)
		l.says <- nil
		l.reading(t, 1) // nobody has waited since
		l.end(t)
	})
}

// pile is a connection on which everything has come at once.
type pile struct {
	turn.Conn
	left int
}

func (p *pile) Buffered() bool { return p.left > 0 }

func (p *pile) RecvContext(context.Context) ([][]byte, error) {
	if p.left--; p.left < 0 {
		return nil, errEnd
	}
	return nil, nil
}

// Messages that have come together are handled together, but not without end, and those before an invalid one as well.
func TestWhatComesTogether(t *testing.T) {
	for _, c := range []struct{ all, invalid int }{{3, -1}, {1000, -1}, {5, 3}} {
		read, waits, most := 0, 0, 0
		handle := func([][]byte) error {
			if read++; read == c.invalid {
				return errEnd
			}
			waits++
			most = max(most, waits)
			return nil
		}
		ended := make(chan error, 1)
		turn.New(&pile{left: c.all}, handle, func() { waits = 0 }, func() bool { return true }, func(err error) { ended <- err }).Serve()
		require.Equal(t, errEnd, <-ended)
		require.Zero(t, waits)
		if c.invalid > 0 {
			require.Equal(t, c.invalid, read)
			continue
		}
		require.Equal(t, c.all, read)
		require.Equal(t, min(c.all, 64), most)
	}
}

// Wait returns what comes, whoever reads.
func TestWait(t *testing.T) {
	for name, reader := range map[string]func(l *line) *turn.Reader{
		"another goroutine":    func(l *line) *turn.Reader { return l.Reader },
		"the caller":           func(l *line) *turn.Reader { l.free(); return l.Reader },
		"without a connection": func(l *line) *turn.Reader { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine()
				r, came := reader(l), make(chan int, 1)
				came <- 7
				got, err := turn.Wait(t.Context(), r, came)
				require.NoError(t, err)
				require.Equal(t, 7, got)
				time.AfterFunc(time.Second, func() { came <- 8 })
				got, err = turn.Wait(t.Context(), r, came)
				require.NoError(t, err)
				require.Equal(t, 8, got)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = turn.Wait(ctx, r, came)
				require.Equal(t, context.DeadlineExceeded, err)
				close(came)
				got, err = turn.Wait(t.Context(), r, came)
				require.NoError(t, err)
				require.Zero(t, got)
				l.end(t)
			})
		})
	}
}

// A caller for whom no message comes is relieved.
func TestACallerReadsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.free()
		begun := time.Now()
		l.Help(t.Context(), func() bool { return false })
		require.LessOrEqual(t, time.Since(begun), 3*time.Millisecond)
		l.reading(t, 1)
		l.says <- nil // what it still waits for, in another way
		l.reading(t, 0)
		time.Sleep(time.Second)
		l.end(t)
	})
}

// What no caller waits for is read at once.
func TestWhatNobodyWaitsFor(t *testing.T) {
	for name, ask := range map[string]func(l *line, t *testing.T){
		"expected while nobody reads": func(l *line, t *testing.T) {
			l.free()
			l.due.Store(true)
			l.Expect()
		},
		"due when a caller has its answer": func(l *line, t *testing.T) {
			l.free()
			l.due.Store(true)
			l.Help(t.Context(), func() bool { return true })
		},
		"due when another goroutine reads a caller's answer": func(l *line, t *testing.T) {
			l.due.Store(true)
			l.Help(t.Context(), func() bool { panic("not its turn") })
			l.says <- nil
		},
		"asked for while another goroutine ceases to read": func(l *line, t *testing.T) {
			l.late.Store(true)
			l.Help(t.Context(), func() bool { panic("not its turn") })
			l.says <- nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine()
				begun := time.Now()
				ask(l, t)
				l.reading(t, 1)
				require.Zero(t, time.Since(begun))
				l.end(t)
			})
		})
	}
}

// After much traffic, what nobody has announced is read all the same, after a few
// looks.
func TestWhatNobodyHasAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.free()
		for n := range int32(10000) {
			done := make(chan struct{})
			go func() { l.Help(t.Context(), l.until(n+2)); close(done) }()
			time.Sleep(10 * time.Microsecond)
			l.says <- nil
			<-done
		}
		l.reading(t, 0)
		begun := time.Now()
		l.says <- nil // blocks until somebody reads
		require.LessOrEqual(t, time.Since(begun), 8*time.Millisecond)
		l.end(t)
	})
}

// The reader asks what is due only when callers wait.
func TestWithoutCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		for range 100 {
			l.says <- nil
		}
		l.end(t)
		require.Zero(t, l.asked.Load())
	})
}

// The end of the connection is reported even if a caller reads it.
func TestEndWhileACallerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.free()
		go l.Help(t.Context(), func() bool { return false })
		l.end(t)
		l.Help(t.Context(), func() bool { panic("there is nothing to read") })
	})
}

// A caller in whose goroutine the handling of a message panics does not keep others
// from reading.
func TestPanicWhileACallerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		l.free()
		require.Panics(t, func() { l.Help(t.Context(), func() bool { panic("oh") }) })
		l.reading(t, 1)
		l.end(t)
	})
}

// The end of its context ends a caller's reading, although messages keep coming, and
// also in the middle of one. Another goroutine reads on.
func TestContextOfACaller(t *testing.T) {
	for name, busy := range map[string]bool{"busy": true, "in a message": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine()
				l.free()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				left := make(chan struct{})
				begun, when := time.Now(), time.Duration(0)
				go func() {
					defer close(left)
					_, err := turn.Wait(ctx, l.Reader, make(chan struct{}))
					require.Equal(t, context.DeadlineExceeded, err)
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

// requests is a connection that brings things to run.
type requests struct {
	work    chan func()
	readers atomic.Int32
	ended   chan error
}

func newRequests() *requests {
	q := &requests{work: make(chan func()), ended: make(chan error, 1)}
	go turn.Serve(func() (func(), error) {
		if q.readers.Add(1) != 1 {
			panic("two read")
		}
		defer q.readers.Add(-1)
		if f := <-q.work; f != nil {
			return f, nil
		}
		return nil, errEnd
	}, func(err error) { q.ended <- err })
	return q
}

func (q *requests) end(t *testing.T) {
	close(q.work)
	require.Equal(t, errEnd, <-q.ended)
}

// Short work is run by the goroutine that has read it, which goes on reading.
func TestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRequests()
		id := func() string { return string(bytes.Fields(debug.Stack())[1]) }
		ran := map[string]int{}
		for range 1000 {
			q.work <- func() { ran[id()]++; time.Sleep(10 * time.Microsecond) }
		}
		q.end(t)
		require.Len(t, ran, 1, "the same goroutine has read all the time")
		time.Sleep(time.Second) // the watching has ended
	})
}

// A goroutine that runs something long is replaced, and reads no more when it
// is done.
func TestShortThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRequests()
		gate := make(chan struct{})
		for range 3 {
			q.work <- func() {}
			q.work <- func() { <-gate }
		}
		q.work <- func() {} // another one reads
		synctest.Wait()
		require.EqualValues(t, 1, q.readers.Load())
		close(gate)
		for range 10 {
			q.work <- func() {}
		}
		q.end(t)
	})
}

func TestShortThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newRequests()
		q.work <- runtime.Goexit
		q.work <- func() {}
		q.end(t)
		time.Sleep(time.Second)
	})
}
