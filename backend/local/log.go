package local

import (
	"context"
	"io"
	"sync"
)

// logKept is how many bytes of a job's output are kept for Logs.
const logKept = 256 << 10

// log keeps the end of a job's output and wakes those who follow it.
type log struct {
	mu     sync.Mutex
	kept   []byte
	first  int64         // position in the whole output of kept[0]
	closed bool          // nothing more will come
	more   chan struct{} // closed and replaced at each change, nil when nobody waits
}

func newLog() *log { return &log{} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if cut := len(l.kept) - logKept; cut > logKept/2 {
		l.kept = append([]byte(nil), l.kept[cut:]...)
		l.first += int64(cut)
	}
	l.wake()
	return len(p), nil
}

// Close says that the output has ended.
func (l *log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

func (l *log) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// reader reads from the oldest kept byte; following, it ends with the job.
func (l *log) reader(ctx context.Context, follow bool) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	return &logReader{log: l, ctx: ctx, cancel: cancel, follow: follow}
}

type logReader struct {
	log    *log
	ctx    context.Context
	cancel context.CancelFunc
	follow bool
	next   int64
}

func (r *logReader) Close() error { r.cancel(); return nil }

func (r *logReader) Read(p []byte) (int, error) {
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
