package tree

import (
	"bytes"
	"strings"
	"sync"
)

const (
	tailLines = 20
	tailBytes = 8 << 10
)

// tail keeps the last lines that are written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*tailBytes {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailBytes:]...)
	}
	return len(p), nil
}

// Lines returns the last tailLines lines, oldest first.
func (t *tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimRight(string(bytes.ToValidUTF8(t.buf, []byte("?"))), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-tailLines):]
}
