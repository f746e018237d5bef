package fiber

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fiber-go/fiber/internal/config"
	text "github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

// fate says what became of the call of a failed task.
type fate struct {
	input      string // of the task, in brief; "" if it is not known
	tasks      int    // of the call, 0 if their number is not known
	kept       int    // of them, those that a checkpoint had finished
	tally      engine.Tally
	checkpoint string // the path of its file, "" for none
}

// lastWordsShown is how many of the last lines of a lost process lastLook shows.
const lastWordsShown = 4

// lastLook says in a few lines what somebody wants to know first of a run that has failed for a task: which input, in which worker, why,
// how many succeeded, and where the rest is. It returns "" if another error has ended the run.
func (p *process) lastLook(err error) string {
	var task *TaskError
	if !errors.As(err, &task) {
		return ""
	}
	f := cmp.Or(task.fate, new(fate))
	var b strings.Builder
	line := func(what, format string, args ...any) {
		shown := clip(text.Printable(fmt.Sprintf(format, args...), ' '), lineShown)
		fmt.Fprintf(&b, "  %-11s%s\n", what, shown)
	}
	fmt.Fprintf(&b, "\nfiber: the run has failed: %s\n", task.Func)
	switch {
	case f.input == "" && task.single:
	case f.input == "":
		line("input", "%d", task.Index)
	case task.single:
		line("input", "%s", f.input)
	default:
		line("input", "%d: %s", task.Index, f.input)
	}
	lost, remote := (*WorkerLostError)(nil), (*RemoteError)(nil)
	switch {
	case errors.As(task.Err, &lost):
		line("worker", "%s, process %s%s, at attempt %d", lost.Worker, lost.ID, on(lost.Host), cmp.Or(lost.Attempt, task.Attempt, 1))
		how := *lost
		how.Worker, how.ID, how.Func, how.Attempts = "", "", "", 0
		line("why", "it was lost: %s", strings.TrimLeft(strings.TrimPrefix(how.Error(), "fiber:  was lost"), ": "))
		last := lost.Stderr[max(0, len(lost.Stderr)-lastWordsShown):]
		for i, words := range last {
			line([]string{"last words", ""}[min(i, 1)], "%s", words)
		}
	case errors.As(task.Err, &remote):
		line("worker", "%s, at attempt %d", remote.Worker, max(task.Attempt, 1))
		line("why", "%s", remote.Message)
	default:
		line("why", "%v", task.Err)
	}
	switch t := f.tally; {
	case f.tasks > 1:
		done := f.kept + t.Done
		line("succeeded", "%d of %d; %d failed, %d were given up", done, f.tasks, t.Failed, f.tasks-done-t.Failed)
	case f.tasks == 0 && t.Done+t.Failed > 0:
		line("succeeded", "%d so far; %d failed", t.Done, t.Failed)
	}
	var rest []string
	for what, path := range map[string]string{"report": p.node.Config.Report, "trace": p.node.Config.Trace, "checkpoint": f.checkpoint} {
		if path != "" {
			rest = append(rest, what+" "+path)
		}
	}
	if file := p.node.Config.LogFile; !config.Stream(file) {
		rest = append(rest, "log "+file)
	}
	if slices.Sort(rest); len(rest) > 0 {
		line("the rest", "%s", strings.Join(rest, ", "))
	}
	return b.String()
}

func on(host string) string {
	if host == "" {
		return ""
	}
	return " on " + host
}

const (
	// lineShown is how many characters of a line lastLook shows.
	lineShown = 160
	// briefShown is how many characters brief returns at most, more or less.
	briefShown = 100
)

// clip returns at most n characters of a text.
func clip(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

// brief is a value in a few words, however large it is.
func brief(v any) string {
	var b strings.Builder
	describe(&b, reflect.ValueOf(v), 3)
	return clip(b.String(), briefShown)
}

// describe writes a value that may have so many values inside each other.
func describe(b *strings.Builder, v reflect.Value, depth int) {
	if b.Len() > briefShown {
		return
	}
	list := func(n int, open, end string, each func(i int)) {
		b.WriteString(open)
		for i := range n {
			if i > 0 {
				b.WriteString(" ")
			}
			if i == 3 && n > 6 && open == "[" {
				fmt.Fprintf(b, "… %d in all", n)
				break
			}
			if each(i); b.Len() > briefShown {
				break
			}
		}
		b.WriteString(end)
	}
	switch v.Kind() {
	case reflect.Invalid:
		b.WriteString("nil")
	case reflect.String:
		text := v.String()
		b.WriteString(strconv.Quote(text[:min(len(text), briefShown)]))
	case reflect.Pointer, reflect.Interface:
		switch {
		case v.IsNil():
			b.WriteString("nil")
		case depth == 0:
			b.WriteString("…")
		default:
			describe(b, v.Elem(), depth-1)
		}
	case reflect.Slice, reflect.Array:
		if depth == 0 {
			fmt.Fprintf(b, "%d elements", v.Len())
			return
		}
		list(v.Len(), "[", "]", func(i int) { describe(b, v.Index(i), depth-1) })
	case reflect.Struct:
		if depth == 0 {
			b.WriteString("{…}")
			return
		}
		var fields []reflect.StructField // others may be changed by the type's own methods meanwhile
		for f := range v.Type().Fields() {
			if f.IsExported() {
				fields = append(fields, f)
			}
		}
		list(len(fields), "{", "}", func(i int) {
			b.WriteString(fields[i].Name + ":")
			describe(b, v.FieldByIndex(fields[i].Index), depth-1)
		})
	case reflect.Map:
		fmt.Fprintf(b, "map of %d", v.Len())
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		b.WriteString(v.Type().String())
	default:
		fmt.Fprint(b, v)
	}
}
