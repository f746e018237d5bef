package launch

import (
	"bytes"
	"io"
	"sync"
)

// maxLine bounds what is kept of a line that does not end.
const maxLine = 64 << 10

// lines passes output on line by line, each with a process's name in front,
// so that the lines of several processes stay whole and can be told apart.
type lines struct {
	prefix []byte
	to     io.Writer

	mu   sync.Mutex
	rest []byte // a line that has begun
}

func newLines(name string, to io.Writer) *lines {
	return &lines{prefix: []byte(name + ": "), to: to}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []byte
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		l.rest = append(l.rest, line...)
		if !whole && len(l.rest) < maxLine {
			break
		}
		out = append(append(append(out, l.prefix...), l.rest...), '\n')
		l.rest, rest = l.rest[:0], after
	}
	if len(out) > 0 {
		l.to.Write(out)
	}
	return len(p), nil
}

// end passes on a last line that has no end.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.to.Write(append(append(append([]byte(nil), l.prefix...), l.rest...), '\n'))
		l.rest = nil
	}
}
