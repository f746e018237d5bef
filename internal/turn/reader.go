// Package turn decides which goroutine reads a connection. One goroutine at a
// time has the turn. It hands the turn on in two cases; each saves waking
// another goroutine for a message, which is half the cost of a round trip:
//
//   - A caller that waits for an answer reads it itself, if nobody else reads.
//     When nothing else is to come, the turn then stays free for the next caller.
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

	"github.com/fiber-go/fiber/internal/self"
)

// Conn is a connection as a Reader sees it. One goroutine at a time calls its
// methods.
type Conn interface {
	// RecvContext waits for a message. When ctx ends, it returns the ctx's error,
	// and the next call goes on where this one has stopped.
	RecvContext(ctx context.Context) ([][]byte, error)
	// Linger waits for a moment until there is something to receive, and reports
	// whether there is. It returns false at once when nothing is expected soon.
	Linger() bool
	// Buffered reports whether a whole message is here, which RecvContext returns at once. It may miss one.
	Buffered() bool
}

// Reader reads a connection and handles its messages, one after another.
type Reader struct {
	conn  Conn
	read  func(ctx context.Context) (run func(), err error)
	idle  func() bool
	ended func(err error)

	changes atomic.Uint64 // how often the turn was taken or freed: odd while a goroutine has it
	waited  atomic.Bool   // a caller waits, or has waited lately, while another goroutine reads
	watched atomic.Bool   // look is due to run
	seen    uint64        // the changes at the last look; only for the goroutine that looks
}

// moment is the interval at which a turn is checked: a state that lasts from
// one check to the next lasts too long. A check wakes a thread, so a turn that
// changes briskly, more than twice a moment, is checked each briskMoment.
const (
	moment      = time.Millisecond
	briskMoment = 4 * moment
)

// maxRun is how many messages that have come together are handled before what follows from them.
const maxRun = 64

// New makes the reader of a connection to which this process sends requests.
// The owner of the connection calls Serve once. Whoever sends a request calls
// Wait, Help or Expect.
//
// handle handles a message, and must not block. handled, unless nil, is called after the last
// of those that came together. idle says whether no answer is due; it is called without a lock.
// ended is called once, with the error of the connection or of handle.
func New(conn Conn, handle func(frames [][]byte) error, handled func(), idle func() bool, ended func(err error)) *Reader {
	return newReader(conn, func(ctx context.Context) (func(), error) {
		frames, err := conn.RecvContext(ctx)
		if err != nil {
			return nil, err
		}
		for n := 1; ; n++ {
			if err = handle(frames); err != nil || n == maxRun || !conn.Buffered() {
				break
			}
			if frames, err = conn.RecvContext(ctx); err != nil {
				break
			}
		}
		if handled != nil {
			handled()
		}
		return nil, err
	}, idle, ended)
}

func newReader(conn Conn, read func(context.Context) (func(), error), idle func() bool, ended func(error)) *Reader {
	r := &Reader{conn: conn, read: read, idle: idle, ended: ended}
	r.changes.Store(1)
	return r
}

// Serve reads a connection on which requests come to this process, until it
// ends or another goroutine reads on. read waits for a message and handles it;
// it may return a function that is to run next. If that takes longer than a
// moment, another goroutine reads on meanwhile. ended is called once, with the
// error of read.
func Serve(read func() (run func(), err error), ended func(err error)) {
	newReader(nil, func(context.Context) (func(), error) { return read() }, nil, ended).Serve()
}

// Serve reads until the connection ends or callers read on.
func (r *Reader) Serve() {
	for {
		switch run, err := r.read(context.Background()); {
		case err != nil:
			r.ended(err) // and keep the turn, so that nobody reads again
			return
		case run != nil:
			if !r.run(run) {
				return
			}
		case r.waited.Load() && r.idle():
			if r.rest() {
				return
			}
		}
	}
}

// run calls f and reports whether the goroutine still has the turn. f may end the
// goroutine.
func (r *Reader) run(f func()) (still bool) {
	left, returned := r.free(), false
	defer func() {
		still = r.changes.CompareAndSwap(left, left+1)
		if still && !returned {
			go r.Serve()
		}
	}()
	f()
	returned = true
	return
}

// free frees the turn, which the caller has.
func (r *Reader) free() (changes uint64) {
	changes = r.changes.Add(1)
	r.watch()
	return changes
}

// take takes the turn if it is free.
func (r *Reader) take() bool {
	changes := r.changes.Load()
	return changes%2 == 0 && r.changes.CompareAndSwap(changes, changes+1)
}

// rest frees the turn, and reports false if the caller has to read on: who asked
// for something just before relies on whoever had the turn.
func (r *Reader) rest() bool {
	r.waited.Store(false)
	r.free()
	return r.idle() || !r.take()
}

// Expect notes that a request was sent whose answer no caller waits for in Wait
// or Help: it is read as soon as it comes.
func (r *Reader) Expect() {
	if r.take() {
		go r.Serve()
	}
}

// Wait returns what comes in a channel, nothing if that is closed, or the ctx's
// error. It reads the connection meanwhile if nobody else does. The caller must
// not hold a lock that the handling of a message takes. Of a nil Reader, Wait
// only waits.
func Wait[T any](ctx context.Context, r *Reader, came <-chan T) (what T, err error) {
	got := false
	if r != nil {
		r.Help(ctx, func() bool {
			select {
			case what = <-came:
				got = true
			default:
			}
			return got
		})
	}
	if got {
		return what, nil
	}
	select {
	case what = <-came:
		return what, nil
	case <-ctx.Done():
		return what, ctx.Err()
	}
}

// Help is for a caller that waits until done is true, in a way that Wait does not
// know. It reads the connection until then. It returns early when another
// goroutine reads, when nothing comes for a moment, or when ctx ends, at any
// byte; then another goroutine reads.
func (r *Reader) Help(ctx context.Context, done func() bool) {
	if !r.take() {
		r.waited.Store(true)
		return
	}
	served, failure := false, error(nil)
	defer func() {
		switch {
		case failure != nil:
			go r.ended(failure) // and keep the turn, so that nobody reads again
		case !served: // also when the handling of a message panics
			r.waited.Store(true)
			go r.Serve()
		case !r.rest():
			go r.Serve()
		}
	}()
	for !done() {
		if ctx.Err() != nil || !r.conn.Linger() {
			return
		}
		if _, err := r.read(ctx); err != nil {
			if err != ctx.Err() {
				failure = err
			}
			return
		}
	}
	served = true
}

// watch checks a free turn every moment until a goroutine has it that keeps it.
func (r *Reader) watch() {
	if !r.watched.Load() && r.watched.CompareAndSwap(false, true) {
		r.lookAgain(moment)
	}
}

func (r *Reader) lookAgain(after time.Duration) {
	r.seen = r.changes.Load()
	self.AfterFunc(after, r.look)
}

func (r *Reader) look() {
	changes := r.changes.Load()
	switch {
	case changes-r.seen > 2:
		r.lookAgain(briskMoment)
	case changes != r.seen:
		r.lookAgain(moment)
	case changes%2 == 1:
		r.watched.Store(false)
		if r.changes.Load() != changes {
			r.watch() // the turn was freed in between
		}
	case r.take():
		r.watched.Store(false)
		r.Serve()
	default:
		r.lookAgain(moment)
	}
}
