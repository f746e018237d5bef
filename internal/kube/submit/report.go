package submit

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	marks "github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/stdio"
)

// Report tells the user what goes on: on a terminal in one line that changes, elsewhere in plain lines. Several goroutines
// may use it.
type Report struct {
	mu       sync.Mutex
	to       io.Writer
	file     *os.File
	terminal bool
	takes    *taker // of files that the program sends; nil for none
	shown    string // the line that changes, or the last plain one
}

// NewReport returns a report to a file.
func NewReport(f *os.File) *Report {
	return &Report{to: stdio.Stream(func() *os.File { return f }), file: f, terminal: term.IsTerminal(int(f.Fd()))}
}

// Say writes a line that stays.
func (r *Report) Say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	fmt.Fprintf(r.to, format+"\n", args...)
}

// lost writes that a connection broke.
func (r *Report) lost(err error) { r.Say("the pod's output: %v", err) }

// Status writes what is going on now. On a terminal it replaces the previous status.
func (r *Report) Status(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == r.shown {
		return
	}
	r.clear()
	r.shown = text
	if !r.terminal || stdio.Taken() {
		fmt.Fprintln(r.to, text)
		return
	}
	if width, _, err := term.GetSize(int(r.file.Fd())); err == nil && width > 4 && len(text) > width-1 {
		text = text[:width-4] + "..."
	}
	fmt.Fprint(r.to, text)
}

// Passing writes a status that will soon be over, on a terminal only.
func (r *Report) Passing(format string, args ...any) {
	if r.terminal {
		r.Status(format, args...)
	}
}

// Clear removes the status from a terminal.
func (r *Report) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
}

func (r *Report) clear() {
	if r.terminal && r.shown != "" {
		if !stdio.Taken() {
			fmt.Fprint(r.to, "\r\x1b[K")
		}
		r.shown = ""
	}
}

// above returns a writer of output that removes the status first. It calls broken if a write fails.
func (r *Report) above(to io.Writer, broken func()) io.Writer { return output{r, to, broken} }

type output struct {
	report *Report
	to     io.Writer
	broken func()
}

func (o output) Write(p []byte) (int, error) {
	o.report.Clear()
	n, err := o.to.Write(p)
	if err != nil {
		o.broken()
	}
	return n, err
}

// stderr returns a writer of a program's stderr, which takes out what the program sends along for this process.
func (r *Report) stderr(to io.Writer) *taking {
	return &taking{marks.Split{Own: r.above(to, func() {}), Lower: func(kind string, payload []byte) {
		switch take := stdio.Takers[kind]; {
		case kind == stdio.ReturnKind && r.takes != nil:
			r.takes.take(payload)
		case take != nil && r.terminal:
			take(payload)
		}
	}}}
}

type taking struct{ marks.Split }

// Close passes on what may have been the beginning of such a message.
func (t *taking) Close() error { t.End(); return nil }

// taken ends the taking of files.
func (r *Report) taken() {
	if r.takes != nil {
		r.takes.close()
	}
}

// followed returns the variable of a program whose stderr is written by stderr; "" for none.
func (r *Report) followed() (env []string) {
	if r.terminal && len(stdio.Takers) > 0 {
		env = append(env, stdio.FollowerKey+"="+stdio.Terminal)
	}
	return env
}

// Amount returns a size in bytes in readable form.
func Amount(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0") + " MiB"
}
