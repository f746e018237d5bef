// Package output keeps the end of what a job has written, to be read as its logs
// while it runs or afterwards.
package output

import (
	"context"
	"io"
	"sync"
)

// kept is how many bytes of a job's output are kept.
const kept = 256 << 10

// Log keeps the end of a job's output and wakes the readers that follow it.
type Log struct {
	mu     sync.Mutex
	kept   []byte
	first  int64      // position in the whole output of kept[0]
	closed bool       // nothing more will come
	more   *sync.Cond // wakes the readers
}

// New returns an empty log.
func New() *Log {
	l := &Log{}
	l.more = sync.NewCond(&l.mu)
	return l
}

// Write adds to the log; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if cut := len(l.kept) - kept; cut > kept/2 {
		l.kept = append([]byte(nil), l.kept[cut:]...)
		l.first += int64(cut)
	}
	l.more.Broadcast()
	return len(p), nil
}

// Close marks the end of the output.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.more.Broadcast()
}

// Reader reads from the oldest kept byte to the newest or, with follow, to the end
// of the output: then it blocks while there is nothing to read, until ctx ends.
func (l *Log) Reader(ctx context.Context, follow bool) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.more.Broadcast()
	})
	return &reader{log: l, ctx: ctx, cancel: cancel, follow: follow}
}

type reader struct {
	log    *Log
	ctx    context.Context
	cancel context.CancelFunc
	follow bool
	next   int64
}

func (r *reader) Close() error { r.cancel(); return nil }

func (r *reader) Read(p []byte) (int, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		r.next = max(r.next, l.first)
		if n := copy(p, l.kept[r.next-l.first:]); n > 0 {
			r.next += int64(n)
			return n, nil
		}
		if l.closed || !r.follow {
			return 0, io.EOF
		}
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		l.more.Wait()
	}
}
