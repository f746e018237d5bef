// Package output keeps the end of what a job has written, to be read as its logs
// while it runs or afterwards.
package output

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"github.com/fiber-go/fiber/internal/lock"
)

// Log keeps the end of a job's output and wakes the readers that follow it.
type Log struct {
	least int // how many bytes are kept at least, once so many have come

	mu      sync.Mutex
	kept    []byte
	first   int64 // position in the whole output of kept[0]
	closed  bool  // nothing more will come
	changes lock.Changes
}

// New returns an empty log. It keeps at least that many of the last bytes, and at most half as many more.
func New(least int) *Log { return &Log{least: least} }

// Write adds to the log; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if cut := len(l.kept) - l.least; cut > l.least/2 {
		l.kept = append(l.kept[:0], l.kept[cut:]...)
		l.first += int64(cut)
	}
	l.changes.Tell()
	return len(p), nil
}

// Lines returns the last n lines that are kept, oldest first.
func (l *Log) Lines(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimRight(string(bytes.ToValidUTF8(l.kept, []byte("?"))), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}

// Close marks the end of the output.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changes.Tell()
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
		more := l.changes.Next()
		l.mu.Unlock()
		select {
		case <-more:
		case <-r.ctx.Done():
		}
		l.mu.Lock()
	}
}
