package tree

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	text "github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/internal/output"
)

const (
	// maxLine bounds, in bytes, what is kept of a line that does not end.
	maxLine = 64 << 10
	// maxColumn bounds the width to which names are padded.
	maxColumn = 24
)

// names puts the names of processes in front of what they write, in a column.
type names struct {
	mu     sync.Mutex
	column int
}

// before returns what stands in front of a process's lines. It is called for each
// line, since a longer name may have come meanwhile.
func (n *names) before(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.column = max(n.column, min(len(name), maxColumn))
	return fmt.Sprintf("%-*s | ", n.column, name)
}

// line makes a line of a process's output as this process passes it on. Only the
// root puts the name in front; other processes mark the line with the name.
func (n *Node) line(name string, text []byte) []byte {
	switch {
	case n.Parent != nil:
		return output.Mark(name, text)
	case !n.Config.LogPrefix.Enabled():
		name = ""
	default:
		name = n.names.before(name)
	}
	return append(append([]byte(name), text...), '\n')
}

// maxName is how many bytes of a process's name are shown.
const maxName = 256

// printable makes a name safe to show: nothing in it can pass for the end of a
// name, or of a line.
func printable(name string) string {
	return text.Printable(name[:min(len(name), maxName)], '?')
}

// lines passes on one stream of a process's output, line by line, so that the
// lines of several processes stay whole.
type lines struct {
	node *Node
	name string
	copy io.Writer // gets what the process itself has written, too; may be nil
	to   io.Writer // nil to pass nothing on

	mu   sync.Mutex
	rest []byte // a line that has begun
	once sync.Once
}

func (l *lines) Write(p []byte) (int, error) {
	if l.copy != nil {
		l.copy.Write(p)
	}
	if l.to == nil {
		return len(p), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	var out []byte
	for {
		line, after, whole := bytes.Cut(l.rest, []byte("\n"))
		if len(line) > maxLine {
			line, after, whole = l.rest[:maxLine], l.rest[maxLine:], true
		}
		if !whole {
			break
		}
		out = append(out, l.node.line(l.name, line)...)
		l.rest = after
	}
	if len(out) > 0 {
		l.to.Write(out)
	}
	return len(p), nil
}

// Lower passes on a line of a process below.
func (l *lines) Lower(name string, line []byte) {
	if l.to != nil {
		l.to.Write(l.node.line(printable(name), line)) // the process may have made the name up
	}
}

// Close passes on a last line that does not end.
func (l *lines) Close() error {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.rest) > 0 {
			l.to.Write(l.node.line(l.name, l.rest))
			l.rest = nil
		}
		l.node.forwarding.Done()
	})
	return nil
}
