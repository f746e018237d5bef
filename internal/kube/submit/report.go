package submit

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Report tells the user what goes on: on a terminal in one line that changes, elsewhere in plain lines. It may be used
// by several goroutines; a nil one is silent.
type Report struct {
	mu       sync.Mutex
	to       io.Writer
	terminal bool
	shown    string // the line that changes, or the last plain one
}

// NewReport reports to a file.
func NewReport(f *os.File) *Report {
	return &Report{to: f, terminal: term.IsTerminal(int(f.Fd()))}
}

// Terminal reports whether somebody looks on.
func (r *Report) Terminal() bool { return r != nil && r.terminal }

// Say writes a line that stays.
func (r *Report) Say(format string, args ...any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	fmt.Fprintf(r.to, format+"\n", args...)
}

// lost says that a connection broke.
func (r *Report) lost(err error) { r.Say("the pod's output: %v", err) }

// Status says what is going on now. On a terminal it takes the place of what was said before.
func (r *Report) Status(format string, args ...any) {
	if r == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == r.shown {
		return
	}
	r.clear()
	r.shown = text
	if !r.terminal {
		fmt.Fprintln(r.to, text)
		return
	}
	if width, _, err := term.GetSize(int(r.to.(*os.File).Fd())); err == nil && width > 4 && len(text) > width-1 {
		text = text[:width-4] + "..."
	}
	fmt.Fprint(r.to, text)
}

// Passing says what will soon be over, which is worth no line where lines stay.
func (r *Report) Passing(format string, args ...any) {
	if r.Terminal() {
		r.Status(format, args...)
	}
}

// Clear takes what Status has said off a terminal.
func (r *Report) Clear() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
}

func (r *Report) clear() {
	if r.terminal && r.shown != "" {
		fmt.Fprint(r.to, "\r\x1b[K")
		r.shown = ""
	}
}

// above is a writer of output, which takes the place of what Status has said.
func (r *Report) above(to io.Writer) io.Writer { return cleared{r, to} }

type cleared struct {
	report *Report
	to     io.Writer
}

func (c cleared) Write(p []byte) (int, error) {
	c.report.Clear()
	return c.to.Write(p)
}

// Amount writes a size as people do.
func Amount(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0") + " MiB"
}
