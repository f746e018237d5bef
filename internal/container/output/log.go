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
	first  int64         // position in the whole output of kept[0]
	closed bool          // nothing more will come
	more   chan struct{} // closed at each change, nil if no reader waits
}

// New returns an empty log.
func New() *Log { return &Log{} }

// Write adds to the log; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if cut := len(l.kept) - kept; cut > kept/2 {
		l.kept = append([]byte(nil), l.kept[cut:]...)
		l.first += int64(cut)
	}
	l.wake()
	return len(p), nil
}

// Close marks the end of the output.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

func (l *Log) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// Reader reads from the oldest kept byte to the newest or, with follow, to the end
// of the output: then it blocks while there is nothing to read, until ctx ends.
func (l *Log) Reader(ctx context.Context, follow bool) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
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
	for {
		l := r.log
		l.mu.Lock()
		if r.next < l.first {
			r.next = l.first
		}
		if rest := l.kept[r.next-l.first:]; len(rest) > 0 {
			n := copy(p, rest)
			r.next += int64(n)
			l.mu.Unlock()
			return n, nil
		}
		if l.closed || !r.follow {
			l.mu.Unlock()
			return 0, io.EOF
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}
