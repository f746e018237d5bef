package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/lock"
)

const (
	inlineWrites = 4                     // system calls that a caller makes before the writer goroutine takes over
	maxWrite     = 1 << 20               // bytes in a write that may block
	burstWindow  = 20 * time.Microsecond // writes closer together than this are a burst
)

// writer moves the outbox into the socket. At most one goroutine writes at a
// time: a caller, as long as the socket takes the bytes at once, or else the
// writer goroutine, which ends when the outbox is empty. Bytes added meanwhile
// leave with the next system call.
type writer struct {
	nc     net.Conn
	socket detached      // nc, if a write can be tried without blocking; else nil
	fail   func(error)   // ends the connection; called without the lock
	fresh  atomic.Bool   // something was read since the last write
	over   atomic.Bool   // the queue may be beyond its limit, since Post heeds none
	next   chan struct{} // has an element while a message waits for room; others wait behind it
	done   sync.WaitGroup

	mu      sync.Mutex
	out     outbox
	arena   arena // for large frames
	err     error // set once, when writing ends
	fault   error // of a write; it becomes err
	busy    bool  // a goroutine is writing
	last    time.Time
	limit   int64
	iov     [][]byte     // for the goroutine that writes
	copied  []byte       // likewise
	lent    uint64       // segments below this number may be memory of callers that leave
	changes lock.Changes // segments have left, or writing has ended
}

func newWriter(nc net.Conn, limit int64, fail func(error)) *writer {
	w := &writer{nc: nc, limit: limit, fail: fail, next: make(chan struct{}, 1)}
	w.socket, _ = nc.(detached)
	return w
}

// await blocks until something has changed. The lock is held at the call and on
// return.
func (w *writer) await(ctx context.Context) error {
	changed := w.changes.Next()
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit blocks until the queue has room for size bytes, in the order of the
// calls. On return it holds the lock, after an error, too.
func (w *writer) admit(ctx context.Context, size int64) error {
	select {
	case w.next <- struct{}{}:
		defer func() { <-w.next }()
	case <-ctx.Done():
		w.mu.Lock()
		return ctx.Err()
	}
	w.mu.Lock()
	for w.err == nil && w.out.bytes > 0 && w.out.bytes+size > w.limit {
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	return w.err
}

// room blocks until the queue is within its limit. When the socket takes
// something, the peer has been heard.
func (w *writer) room(heard *atomic.Bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && w.out.bytes > w.limit {
		_ = w.await(context.Background())
		heard.Store(true)
	}
	w.over.Store(false)
	return w.err
}

// settle blocks until segments from to to-1 have left. If ctx ends first, settle
// removes them from the queue and returns ctx.Err(). Once their first byte has
// left they can't be removed: settle then copies the rest, which still leaves,
// and returns an error that is ErrUnknownOutcome, too. With from == to nothing is
// removed. The lock is held at the call and on return.
func (w *writer) settle(ctx context.Context, from, to uint64) error {
	for w.out.head < to {
		if w.err != nil {
			return w.err
		}
		if err := w.await(ctx); err != nil {
			if from == to {
				return err
			}
			return w.abandon(from, to, err)
		}
	}
	return nil
}

// abandon ends the caller's interest in segments from to to-1, and in their
// memory, for cause. The lock is held at the call and on return.
func (w *writer) abandon(from, to uint64, cause error) error {
	for w.out.head < to {
		switch {
		case w.err != nil:
			return w.err
		case w.out.drop(from, to):
			w.changes.Tell()
			return cause
		case w.socket == nil || w.out.taken <= from:
			w.out.own(from, to)
			return fmt.Errorf("%w: %w", cause, ErrUnknownOutcome)
		}
		_ = w.await(context.Background()) // for the end of a write that does not block
	}
	return nil
}

// kick makes sure that what was added is written. The lock is held at the call
// and released on return. A patient caller, one that waits for its bytes
// anyway, writes them itself if possible. Others leave the second message of a
// burst to the writer goroutine, so that the rest of the burst joins it.
func (w *writer) kick(patient bool) {
	if w.busy || !w.more() {
		w.mu.Unlock()
		return
	}
	w.busy = true
	w.done.Add(1) // Close waits for whoever writes, who may use memory of other callers'
	fresh := w.fresh.Swap(false)
	inline := w.socket != nil && (patient || fresh || time.Since(w.last) > burstWindow)
	for n := 0; inline && n < inlineWrites && w.more(); n++ {
		inline = w.write()
	}
	if w.more() {
		w.mu.Unlock()
		go w.drain()
		return
	}
	w.rest()
}

func (w *writer) drain() {
	w.mu.Lock()
	for w.more() {
		var err error
		if w.socket != nil { // others' memory is not used while this waits
			w.mu.Unlock()
			err = w.socket.AwaitRoom()
			w.mu.Lock()
		}
		if w.fault = err; err == nil && w.more() {
			w.write()
		}
	}
	w.rest()
}

func (w *writer) more() bool { return w.err == nil && w.fault == nil && w.out.bytes > 0 }

// rest ends the caller's turn at writing. The lock is held at the call and
// released on return.
func (w *writer) rest() {
	defer w.done.Done()
	w.busy, w.last = false, time.Now()
	fault := w.fault
	w.mu.Unlock()
	if fault != nil {
		w.fail(fault)
	}
}

// write writes some of what is queued, and reports whether the connection took
// any of it. A write that may block, as those of TLS do, writes a copy of what is
// lent. The lock is held at the call and on return.
func (w *writer) write() (some bool) {
	limit := maxPieces
	if w.socket == nil {
		limit = 1
	}
	w.iov = w.out.gather(w.iov[:0], limit)
	if w.socket == nil {
		w.iov[0] = w.iov[0][:min(len(w.iov[0]), maxWrite)] // that the socket takes it is a sign of life: see room
		if w.out.head < w.lent {
			w.copied = append(w.copied[:0], w.iov[0][:min(len(w.iov[0]), chunkSize)]...)
			w.iov[0] = w.copied
		}
	}
	w.mu.Unlock()
	var n int
	var err error
	if w.socket != nil {
		n, err = w.socket.WriteSome(w.iov)
	} else {
		n, err = w.nc.Write(w.iov[0])
	}
	clear(w.iov)
	w.mu.Lock()
	if w.err != nil {
		return false
	}
	if w.fault = err; err != nil {
		n = 0 // how much of it was written is unknown
	}
	w.out.advance(n)
	w.changes.Tell()
	return n > 0
}

// stop ends the writer with err, which all waiters return, and reports whether
// queued bytes were left.
func (w *writer) stop(err error) (undelivered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.out.bytes > 0
	}
	w.err = err
	w.changes.Tell()
	w.arena.close()
	// A write in flight may still read the chunks: leave them to the garbage
	// collector.
	bytes := w.out.bytes
	w.out = outbox{head: w.out.head, bytes: bytes}
	return bytes > 0
}

// Write adds framed bytes from the codec to the outbox; the lock is held.
func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.out.add(p)
	return len(p), nil
}
