package fiber

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ErrClosed is returned by what somebody has closed: a pool, a queue, a manager
// and all that is in it, a shared value. What ended with its process otherwise,
// in good order or not, returns a *WorkerLostError; only Send into a pipe whose
// other end is gone returns ErrClosed in any case.
var ErrClosed = engine.ErrClosed

// ErrNotInitialized is what starting anything gives in a program that has not
// called Main or Init.
var ErrNotInitialized = errors.New("fiber: not initialised; put the program into fiber.Main, or call fiber.Init first thing in main (in TestMain for tests)")

// LaunchError is a process that could not be started, with the backend's own
// reason.
type LaunchError = backend.LaunchError

// MismatchError is a process whose program is not this one's: another build,
// or other functions.
type MismatchError = tree.MismatchError

// EncodeError is a value that cannot travel, with the place inside it.
type EncodeError = codec.Error

// RemoteError is a function that failed: it returned an error or panicked.
// errors.Is finds context.Canceled, context.DeadlineExceeded and sentinels
// made known by RegisterError in it; errors.As finds Fiber's own errors.
type RemoteError struct {
	Func    string // the function's name
	Worker  string // the process that ran it
	Message string // the error's text, or the panic's value
	Stack   string // where it panicked, "" for an error

	causes []error
}

func (e *RemoteError) Error() string {
	text := "fiber: " + e.Func
	if e.Worker != "" {
		text += " in " + e.Worker
	}
	if e.Stack != "" {
		return text + " panicked: " + e.Message + "\n" + strings.TrimRight(e.Stack, "\n")
	}
	return text + ": " + e.Message
}

// Unwrap gives what the error is besides.
func (e *RemoteError) Unwrap() []error { return e.causes }

// WorkerLostError is a task that was lost with the process that ran it, as
// often as the pool tries.
type WorkerLostError struct {
	Func     string // the function, "" when the process was not running one
	Worker   string // the process's name
	ID       string // its OS pid, container or pod
	Host     string
	ExitCode int      // -1 where it is not known: only the process that started it learns it
	Signal   string   // "" when it exited by itself
	OOM      bool     // it was ended for the memory it used
	Reason   string   // more on why it ended, "" when nothing is known
	Stderr   []string // its last 20 lines
	Attempt  int      // the loss was the task's Attempt-th of Attempts
	Attempts int
}

func (e *WorkerLostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fiber: %s", e.Worker)
	if e.ID != "" {
		fmt.Fprintf(&b, " (process %s", e.ID)
		if e.Host != "" {
			fmt.Fprintf(&b, " on %s", e.Host)
		}
		b.WriteString(")")
	}
	b.WriteString(" was lost")
	if e.Func != "" {
		fmt.Fprintf(&b, " running %s", e.Func)
	}
	if e.Signal != "" {
		fmt.Fprintf(&b, ": %s", e.Signal)
	} else if e.ExitCode >= 0 {
		fmt.Fprintf(&b, ": exit code %d", e.ExitCode)
	}
	if e.OOM {
		b.WriteString(", OOMKilled")
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	if e.Attempts > 0 {
		fmt.Fprintf(&b, " (attempt %d of %d)", e.Attempt, e.Attempts)
	}
	for _, line := range e.Stderr {
		b.WriteString("\n\t" + line)
	}
	return b.String()
}

// ExitError is a process that ended other than by its function returning.
type ExitError struct {
	Name   string
	ID     string
	Code   int    // 128+n when signal n ended it
	Signal string // "" when it exited by itself
	OOM    bool
	Reason string
	Stderr []string // its last 20 lines
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("fiber: %s (process %s) ended with exit code %d", e.Name, e.ID, e.Code)
	if e.Signal != "" {
		text += " (" + e.Signal + ")"
	}
	if e.OOM {
		text += ", OOMKilled"
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	for _, line := range e.Stderr {
		text += "\n\t" + line
	}
	return text
}

var sentinels struct {
	sync.RWMutex
	byText map[string]error
}

// RegisterError makes a sentinel error known to all processes, so that
// errors.Is still finds it in a RemoteError. Like Register it is called while
// package variables are initialised; it returns err and panics when another
// sentinel has the same text.
//
//	var ErrDiverged = fiber.RegisterError(errors.New("diverged"))
func RegisterError(err error) error {
	sentinels.Lock()
	defer sentinels.Unlock()
	if old, ok := sentinels.byText[err.Error()]; ok && old != err {
		panic(fmt.Sprintf("%s: fiber.RegisterError: another error with the text %q is registered", callerLine(), err.Error()))
	}
	if sentinels.byText == nil {
		sentinels.byText = map[string]error{}
	}
	sentinels.byText[err.Error()] = err
	return err
}

// flatten makes an error of a function, or its panic, ready to travel.
func flatten(fn string, err error) *wire.Error {
	panicked, _ := err.(*guard.Panic)
	if panicked != nil {
		var ok bool
		if err, ok = panicked.Value.(error); !ok {
			err = fmt.Errorf("%v", panicked.Value)
		}
	}
	e := &wire.Error{Func: fn, Message: fmt.Sprint(err), Worker: processName(), // Sprint: its Error method may panic
		Canceled: errors.Is(err, context.Canceled), Deadline: errors.Is(err, context.DeadlineExceeded),
		Closed: errors.Is(err, ErrClosed)}
	if panicked != nil {
		e.Panic, e.Stack = true, string(panicked.Stack)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) && !strings.Contains(e.Message, "max_message") {
		e.Message += "; " + whatToDo
	}
	sentinels.RLock()
	for text, sentinel := range sentinels.byText {
		if errors.Is(err, sentinel) {
			e.Matches = append(e.Matches, text)
		}
	}
	sentinels.RUnlock()
	for _, k := range kinds {
		if detail, ok := k.find(err); ok {
			if fields, err := msgpack.Marshal(detail); err == nil {
				e.Kind, e.Detail = k.name, string(fields)
			}
			break
		}
	}
	return e
}

// unflatten makes the error of another process one of this process.
func unflatten(e *wire.Error) *RemoteError {
	r := &RemoteError{Func: e.Func, Worker: e.Worker, Message: e.Message, Stack: e.Stack}
	if e.Canceled {
		r.causes = append(r.causes, context.Canceled)
	}
	if e.Deadline {
		r.causes = append(r.causes, context.DeadlineExceeded)
	}
	if e.Closed {
		r.causes = append(r.causes, ErrClosed)
	}
	sentinels.RLock()
	for _, text := range e.Matches {
		if s := sentinels.byText[text]; s != nil {
			r.causes = append(r.causes, s)
		}
	}
	sentinels.RUnlock()
	for _, k := range kinds {
		if k.name == e.Kind {
			if err := k.decode([]byte(e.Detail)); err != nil {
				r.causes = append(r.causes, err)
			}
		}
	}
	return r
}

// oneValue takes the index out of an error of encoding the only value.
func oneValue(err error) error {
	if e := (*EncodeError)(nil); errors.As(err, &e) {
		e.Index = -1
	}
	return err
}

// fromEngine is an engine's error as a user sees it.
func fromEngine(err error) error {
	if e, ok := err.(*wire.Error); ok {
		return unflatten(e)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) && !strings.Contains(err.Error(), "max_message") {
		return fmt.Errorf("fiber: the argument: %w; %s", err, whatToDo)
	}
	return err
}

// whatToDo stands behind a *transport.SizeError.
const whatToDo = "set max_message (FIBER_MAX_MESSAGE) higher, or send it in parts"

// kind is one of Fiber's own errors on its way in another one.
type kind struct {
	name   string
	find   func(error) (detail any, ok bool)
	decode func([]byte) error // nil when it cannot
}

// own makes the kind of an error type whose exported fields are all it has.
func own[T error](name string, blank func() T, prepare func(T) T) kind {
	return kind{name,
		func(err error) (any, bool) {
			var target T
			if !errors.As(err, &target) {
				return nil, false
			}
			return prepare(target), true
		},
		func(detail []byte) error {
			target := blank()
			if msgpack.Unmarshal(detail, target) != nil {
				return nil
			}
			return target
		}}
}

func same[T any](e T) T { return e }

// kinds are Fiber's own errors, the outermost first where one wraps another.
var kinds = []kind{
	own("WorkerLostError", func() *WorkerLostError { return new(WorkerLostError) }, same),
	own("ExitError", func() *ExitError { return new(ExitError) }, same),
	own("MismatchError", func() *MismatchError { return new(MismatchError) }, same),
	own("LaunchError", func() *LaunchError { return new(LaunchError) }, func(e *LaunchError) *LaunchError {
		flat := *e
		if e.Err != nil { // its cause stays behind, its text goes along
			flat.Reason, flat.Err = strings.TrimPrefix(e.Reason+": "+e.Err.Error(), ": "), nil
		}
		return &flat
	}),
	own("EncodeError", func() *EncodeError { return new(EncodeError) }, func(e *EncodeError) *EncodeError {
		flat := *e
		flat.Err = nil
		return &flat
	}),
}
