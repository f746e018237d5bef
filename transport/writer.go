package transport

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	inlineWrites = 4                     // system calls that a caller makes before the writer goroutine takes over
	burstWindow  = 20 * time.Microsecond // writes closer together than this are a burst
	maxBatch     = 128 << 10             // bytes that writeMany writes before waiters are told
)

// writer moves the outbox into the socket. At most one goroutine writes at a
// time: a caller, as long as the socket takes the bytes at once, or else the
// writer goroutine, which ends when the outbox is empty. Bytes added meanwhile
// leave with the next system call.
type writer struct {
	nc   net.Conn
	raw  syscall.RawConn // nil if a write cannot be tried without blocking
	cork *corked         // below a TLS connection, else nil
	fail func(error)     // ends the connection; called without the lock

	try, wait func(fd uintptr) bool // push in the form that RawConn.Write takes, made once
	iov       [][]byte              // for the goroutine that writes
	fault     error                 // for the goroutine that writes
	stuck     bool                  // the last try found the socket full

	fresh atomic.Bool // something was read since the last write
	done  sync.WaitGroup

	mu       sync.Mutex
	out      outbox
	err      error // set once, when writing ends
	busy     bool  // a goroutine is writing
	last     time.Time
	limit    int64
	reserved int64     // promised to waiters that have left room and not added yet
	room     []*waiter // waiting for room in the queue, in order
	sent     []*waiter // waiting for segments to leave, ordered by the last of them
}

// waiter is a call that waits for room for size bytes, or for segments from to
// to-1 to leave.
type waiter struct {
	size     int64
	from, to uint64
	unwanted bool // its context has ended
	dropped  bool // it gave up before its segments had left
	wake     chan struct{}
}

var waiters = sync.Pool{New: func() any { return &waiter{wake: make(chan struct{}, 1)} }}

func newWaiter() *waiter {
	w := waiters.Get().(*waiter)
	*w = waiter{wake: w.wake}
	return w
}

func newWriter(nc net.Conn, limit int64, fail func(error)) *writer {
	w := &writer{nc: nc, raw: rawConn(nc), cork: corkOf(nc), limit: limit, fail: fail}
	w.try = func(fd uintptr) bool { w.push(fd); return true }
	w.wait = func(fd uintptr) bool { w.push(fd); return !w.stuck }
	return w
}

// admit blocks until the queue has room for size bytes. The lock is held at the
// call and on return.
func (w *writer) admit(ctx context.Context, size int64) error {
	if w.err != nil {
		return w.err
	}
	if len(w.room) == 0 && w.fits(size) {
		return nil
	}
	wt := newWaiter()
	wt.size = size
	w.room = append(w.room, wt)
	w.mu.Unlock()
	var err error
	select {
	case <-wt.wake:
		w.mu.Lock()
	case <-ctx.Done():
		w.mu.Lock()
		if i := slices.Index(w.room, wt); i >= 0 {
			w.room = slices.Delete(w.room, i, i+1)
			w.reserved += size // given back below
		} else {
			<-wt.wake
		}
		err = ctx.Err()
	}
	waiters.Put(wt)
	w.reserved -= size
	if w.err != nil {
		return w.err
	}
	if err != nil {
		w.grant()
	}
	return err
}

func (w *writer) fits(size int64) bool {
	queued := w.out.bytes + w.reserved
	return queued == 0 || queued+size <= w.limit
}

func (w *writer) grant() {
	for len(w.room) > 0 && w.fits(w.room[0].size) {
		w.reserved += w.room[0].size
		w.room[0].wake <- struct{}{}
		w.room = slices.Delete(w.room, 0, 1)
	}
}

// settle blocks until segments from to to-1 have left. If ctx ends before their
// first byte has, settle removes them from the queue and returns ctx.Err();
// after the first byte, ctx has no effect. With from == to nothing is removed,
// and ctx always ends the wait. The lock is held at the call and on return.
func (w *writer) settle(ctx context.Context, from, to uint64) error {
	if w.out.head >= to {
		return nil
	}
	if w.err != nil {
		return w.err
	}
	wt := newWaiter()
	wt.from, wt.to = from, to
	i := len(w.sent)
	for i > 0 && w.sent[i-1].to > to {
		i--
	}
	w.sent = slices.Insert(w.sent, i, wt)
	w.mu.Unlock()
	select {
	case <-wt.wake:
		w.mu.Lock()
	case <-ctx.Done():
		w.mu.Lock()
		wt.unwanted = true
		w.notify()
		w.mu.Unlock()
		<-wt.wake
		w.mu.Lock()
	}
	dropped := wt.dropped
	waiters.Put(wt)
	if dropped {
		return ctx.Err()
	}
	if w.out.head < to {
		return w.err
	}
	return nil
}

// notify wakes the waiters whose segments have left and those that may give up,
// and then those for which the queue has room.
func (w *writer) notify() {
	w.sent = slices.DeleteFunc(w.sent, func(wt *waiter) bool {
		if wt.unwanted && wt.to > w.out.head {
			wt.dropped = wt.from == wt.to || w.out.drop(wt.from, wt.to)
		}
		if wt.to > w.out.head && !wt.dropped {
			return false
		}
		wt.wake <- struct{}{}
		return true
	})
	w.grant()
}

// kick makes sure that what was added is written. The lock is held at the call
// and released on return. A patient caller, one that waits for its bytes
// anyway, writes them itself if possible. Others leave the second message of a
// burst to the writer goroutine, so that the rest of the burst joins it.
func (w *writer) kick(patient bool) {
	if w.busy || w.err != nil || w.out.bytes == 0 {
		w.mu.Unlock()
		return
	}
	w.busy = true
	fresh := w.fresh.Swap(false)
	inline := w.raw != nil && (patient || fresh || time.Since(w.last) > burstWindow)
	if !inline {
		w.handOver()
		return
	}
	w.done.Add(1) // Close waits for this goroutine, which may use memory of other callers'
	defer w.done.Done()
	w.mu.Unlock()
	for n := 1; ; n++ {
		err := w.raw.Write(w.try)
		w.mu.Lock()
		if !w.goesOn(err) {
			return
		}
		if w.stuck || n == inlineWrites {
			w.handOver()
			return
		}
		w.mu.Unlock()
	}
}

// handOver starts the writer goroutine and releases the lock.
func (w *writer) handOver() {
	w.done.Add(1)
	w.mu.Unlock()
	go w.drain()
}

func (w *writer) drain() {
	defer w.done.Done()
	for {
		var err error
		if w.raw != nil {
			err = w.raw.Write(w.wait)
		} else {
			err = w.writeMany()
		}
		w.mu.Lock()
		if !w.goesOn(err) {
			return
		}
		w.mu.Unlock()
	}
}

// goesOn reports after a write whether there is more to do. It is called with
// the lock held. If it returns false, writing has ended and the lock is
// released.
func (w *writer) goesOn(err error) bool {
	if err == nil {
		err = w.fault
	}
	if err == nil && w.err == nil && w.out.bytes > 0 {
		return true
	}
	w.busy = false
	w.last = time.Now()
	failed := err != nil && w.err == nil
	w.mu.Unlock()
	if failed {
		w.fail(err)
	}
	return false
}

// push makes one system call.
func (w *writer) push(fd uintptr) {
	w.stuck = false
	if !w.take(maxPieces) {
		return
	}
	n, err := writeSome(fd, w.iov)
	if err == syscall.EAGAIN {
		n, err, w.stuck = 0, nil, true
	}
	w.wrote(n, err)
}

// writeMany writes the next pieces to a connection that is not a plain socket,
// together if they can be corked.
func (w *writer) writeMany() (err error) {
	limit := 1
	if w.cork != nil {
		limit = maxPieces
	}
	if !w.take(limit) {
		return nil
	}
	if w.cork != nil {
		w.cork.Cork()
	}
	n := 0
	for i := 0; i < len(w.iov) && n < maxBatch && err == nil; i++ {
		var m int
		m, err = w.nc.Write(w.iov[i])
		n += m
	}
	if w.cork != nil && err == nil {
		err = w.cork.Flush()
	}
	if err != nil {
		n = 0 // how much of it was written is unknown
	}
	w.wrote(n, err)
	return err
}

func (w *writer) take(limit int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false
	}
	w.iov = w.out.gather(w.iov[:0], limit)
	return len(w.iov) > 0
}

func (w *writer) wrote(n int, err error) {
	clear(w.iov)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault = err; w.err != nil {
		return
	}
	w.out.advance(n)
	w.notify()
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
	for _, wt := range append(w.sent, w.room...) {
		wt.wake <- struct{}{}
	}
	w.sent, w.room = nil, nil
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
