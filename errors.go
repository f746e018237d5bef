package fiber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/transport"
)

// ErrClosed is returned by the methods of what was closed: a pool, a queue, a
// shared value, a manager and all objects in it. If something ended with its
// process instead, its methods return a *WorkerLostError, in good order or not, except
// for shared values, which move to the main process in good order;
// only Send into a pipe whose other end is gone returns ErrClosed in both
// cases.
var ErrClosed = RegisterError(engine.ErrClosed)

// ErrNotInitialized is returned in a program that has not called Main or Init
// when it starts or makes something.
var ErrNotInitialized = errors.New("fiber: not initialised; run the program with fiber.Main, or call fiber.Init first in main (for tests, in TestMain)")

var errNilContext = errors.New("fiber: the context is nil; pass the one that your function receives, or context.Background()")

// ended returns ctx.Err(), or an error if ctx is nil.
func ended(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return ctx.Err()
}

// errNilFunc is the error of an operation without the user's function, or without a
// context.
func errNilFunc(ctx context.Context, operation string) error {
	if ctx == nil {
		return errNilContext
	}
	return fmt.Errorf("fiber: %s: the function is nil", operation)
}

// ErrAbandoned is returned by Acquire when the lock's last holder has ended, or
// died, without releasing it. The caller then holds the lock and has to release
// it; what the lock guards may be half changed. JoinableQueue.Join also returns
// ErrAbandoned when a consumer has ended, or died, without finishing its items.
var ErrAbandoned = RegisterError(errors.New("abandoned: the last holder ended without giving it back"))

// ErrUnknownOutcome is in the error of an operation that returned, because its
// context had ended, before it could learn whether it was carried out: an item
// may be in the queue, or come later, and a method of a managed object that has
// begun may have done its work. The error matches the context's as well. With a
// context's error alone, nothing was done, except by a pool's calls: some of their
// tasks may have run.
var ErrUnknownOutcome = RegisterError(transport.ErrUnknownOutcome)

// ErrReplaceWorker has a worker replaced: a task returns it, or an error that wraps it,
// when something in its process is broken. The worker begins no other task, and ends
// when the tasks beside this one have finished. The task has failed; it runs again if
// Retries says so. An error that a task has from a call of its own and returns counts as well.
var ErrReplaceWorker = RegisterError(errors.New("fiber: the worker is to be replaced"))

// ErrShutdown is returned when a process starts another one, or a pool has to, after
// it was told to end itself, by Shutdown or a signal.
var ErrShutdown = RegisterError(tree.ErrShutdown)

// ErrBrokenBarrier is returned by Barrier.Wait when the barrier is or
// becomes broken.
var ErrBrokenBarrier = RegisterError(errors.New("the barrier is broken"))

// LaunchError says that a process could not be started, with the backend's own
// reason. With %+v, fmt prints Stderr as well.
type LaunchError struct {
	Backend string   // its name: local, docker, kubernetes or another
	Job     string   // the process's name, "" if no process could be started
	Reason  string   // "" if Err says it
	Err     error    // what the start failed with, or nil
	Stderr  []string // the last lines of what was started and then ended
	// Permanent: trying again would fail in the same way.
	Permanent bool
}

// Error returns one line.
func (e *LaunchError) Error() string { return (*backend.LaunchError)(e).Error() }

// Unwrap returns Err.
func (e *LaunchError) Unwrap() error { return e.Err }

// Format prints the error; %+v prints all that it says.
func (e *LaunchError) Format(s fmt.State, verb rune) { (*backend.LaunchError)(e).Format(s, verb) }

// MismatchError says that two processes do not fit: another build of the
// program, other functions, or a value of another type.
type MismatchError struct {
	Reason string // what does not fit, and what to do
}

// Error returns one line.
func (e *MismatchError) Error() string { return (*tree.MismatchError)(e).Error() }

// EncodeError says which part of a value cannot travel, and why. A value that is
// too large for a message (max_message) is an EncodeError, too.
type EncodeError struct {
	Path   string // fields, elements and keys, such as "Layers[3].Hook"; "" for the value itself
	Type   string // the Go type at Path
	Reason string // why it cannot travel
	Index  int    // of the input, or of the element of the outermost slice, which Path leaves out; -1 for a single value
	Err    error  // what a type's own method returned, or nil
}

// Error returns one line.
func (e *EncodeError) Error() string { return (*codec.Error)(e).Error() }

// Unwrap returns Err.
func (e *EncodeError) Unwrap() error { return e.Err }

// public returns an error of an internal package as the type of this package that
// has the same fields, and other errors as they are. internal says which it was.
func public(err error) (_ error, internal bool) {
	switch e := err.(type) {
	case *codec.Error:
		return (*EncodeError)(e), true
	case *tree.MismatchError:
		return (*MismatchError)(e), true
	case *backend.LaunchError:
		return (*LaunchError)(e), true
	}
	return err, false
}

// exported returns an error whose text is err's, and in which errors.As finds the
// types of this package.
func exported(err error) error {
	if e, internal := public(err); internal {
		return e
	}
	var found error
	walk(err, func(inner error) bool {
		if e, internal := public(inner); internal && found == nil {
			found = e
		}
		return found == nil
	})
	if found == nil {
		return err
	}
	return &prefixed{err.Error(), errors.Join(found, err)}
}

// TaskError says which task of a pool's call failed, and why.
type TaskError struct {
	Func    string // the function's name
	Index   int    // of the input in its call, from 0
	Worker  string // the process that ran it last, "" if none is to blame
	Attempt int    // how often it was started, or may have been; 0 if its argument could not be sent or its result not be decoded
	Err     error  // for errors.As a *RemoteError, *WorkerLostError or *EncodeError; after a Timeout it is context.DeadlineExceeded

	single bool  // there is no need to say which it is
	fate   *fate // of its call; nil if it has come from another process
}

// Error returns one line.
func (e *TaskError) Error() string {
	if e.single {
		return fmt.Sprint(e.Err)
	}
	return fmt.Sprintf("fiber: task %d: %s", e.Index, strings.TrimPrefix(fmt.Sprint(e.Err), "fiber: "))
}

// Unwrap returns Err.
func (e *TaskError) Unwrap() error { return e.Err }

// Format prints the error; %+v prints all that it says.
func (e *TaskError) Format(s fmt.State, verb rune) { format(e, s, verb) }

// taskError makes the error of a task.
func taskError(fn string, index, attempt int, single bool, err error) *TaskError {
	e := &TaskError{Func: fn, Index: index, Attempt: attempt, Err: err, single: single}
	switch err := err.(type) {
	case *RemoteError:
		e.Worker = err.Worker
	case *WorkerLostError:
		e.Worker = err.Worker
	}
	return e
}

// RemoteError says that a function failed in another process: it returned an
// error or panicked. errors.Is finds the sentinels of RegisterError in it, and those of
// context, io, io/fs, os, net and os/exec that a program asks for: context.Canceled,
// io.EOF, fs.ErrNotExist and so on. errors.As finds the types of RegisterErrorType and
// Fiber's own errors, the first 64 KiB of them. A longer text is shortened on its way.
//
// Error returns one line. With %+v, fmt prints the stack as well, and likewise
// the last lines of a lost process's stderr.
type RemoteError struct {
	Func    string // the function's name
	Worker  string // the process that ran it
	Message string // the error's text, or the panic's value
	Stack   string // where it panicked, in the function's own code; "" for an error

	causes []error
	types  []string               // of the errors that it was
	missed atomic.Pointer[string] // what to do for errors.Is and errors.As to find what was looked for
}

// Error returns one line. When errors.Is or errors.As has looked for an error in vain
// that it may have been, the line says how to register that.
func (e *RemoteError) Error() string {
	text := "fiber: " + e.Func
	if e.Worker != "" {
		text += " in " + e.Worker
	}
	if e.Stack != "" {
		text += " panicked"
	}
	var lines []string
	for line := range strings.Lines(e.Message) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.TrimPrefix(line, "fiber: "))
		}
	}
	text += ": " + withoutPrefixes(strings.Join(lines, "; "))
	if missed := e.missed.Load(); missed != nil {
		text += *missed
	}
	return text
}

// Is says whether errors.Is finds the target in what the error was.
func (e *RemoteError) Is(target error) bool {
	if errors.Is(errors.Join(e.causes...), target) {
		return true
	}
	if text := fmt.Sprint(target); text != "" && strings.Contains(e.Message, text) && !registered(target) {
		e.miss("errors.Is finds %q", text, "RegisterError")
	}
	return false
}

// As returns false: what the error is follows from Unwrap.
func (e *RemoteError) As(target any) bool {
	if t := reflect.TypeOf(target).Elem(); slices.Contains(e.types, typeName(t)) && !registeredType(t) {
		e.miss("errors.As finds a %s", t.String(), fmt.Sprintf("RegisterErrorType[%v]", t))
	}
	return false
}

func (e *RemoteError) miss(what, name, register string) {
	hint := fmt.Sprintf(" ("+what+" in it only if that is registered with fiber.%s)", name, register)
	e.missed.Store(&hint)
}

// Format prints the error; %+v prints all that it says.
func (e *RemoteError) Format(s fmt.State, verb rune) { format(e, s, verb) }

// Unwrap returns the errors that errors.Is and errors.As find.
func (e *RemoteError) Unwrap() []error { return e.causes }

// WorkerLostError says that a process was lost: one in which an object lived,
// or the one that ran a task, as often as the pool tries. Error returns one line.
// With %+v, fmt prints Stderr as well.
type WorkerLostError struct {
	Func     string   // the function, "" if the process was not running one
	Worker   string   // the process's name
	ID       string   // its OS pid, container or pod
	Host     string   // where it ran, "" if not known
	ExitCode int      // -1 if not known: only the process that started it learns it
	Signal   string   // "" if it exited by itself
	OOM      bool     // it was killed for the memory it used
	Reason   string   // more on why it ended, "" if nothing is known
	Stderr   []string // its last 20 lines
	Attempt  int      // this was the task's attempt number Attempt of Attempts
	Attempts int      // how often the pool tries
}

// Error returns one line.
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
	return b.String()
}

// Format prints the error; %+v prints all that it says.
func (e *WorkerLostError) Format(s fmt.State, verb rune) { format(e, s, verb) }

// ExitError says that a process ended without its function returning, or was told to
// end before that. Like
// WorkerLostError, it is one line, or with %+v all that it says.
type ExitError struct {
	Name   string   // the process's name
	ID     string   // its OS pid, container or pod
	Code   int      // 128+n when signal n ended it
	Signal string   // "" if it exited by itself
	OOM    bool     // it was killed for the memory it used
	Reason string   // more on why it ended, "" if nothing is known
	Stderr []string // its last 20 lines
}

// Error returns one line.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("fiber: %s (process %s) ended with exit code %d", e.Name, e.ID, e.Code)
	switch {
	case e.Signal != "":
		text += " (" + e.Signal + ")"
	case e.Code == 0:
		text += " before its function returned"
	}
	if e.OOM {
		text += ", OOMKilled"
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Format prints the error; %+v prints all that it says.
func (e *ExitError) Format(s fmt.State, verb rune) { format(e, s, verb) }

// format prints an error of Fiber's own.
func format(err error, s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		io.WriteString(s, whole(err))
		return
	}
	fmt.Fprintf(s, fmt.FormatString(s, verb), err.Error())
}

// whole returns the text of an error and, on lines below it, what else Fiber's
// own errors in it know: stacks, and what lost processes have written last.
func whole(err error) (text string) {
	text = fmt.Sprint(err)
	defer func() { recover() }() // an error that was made badly may panic: its text remains
	walk(err, func(e error) bool {
		lines := besides(e)
		if len(lines) > 0 && !strings.HasSuffix(text, strings.TrimPrefix(e.Error(), "fiber: ")) {
			text += "\n" + e.Error() // whose lines they are
		}
		for _, line := range lines {
			text += "\n\t" + line
		}
		return true
	})
	return text
}

// besides returns the lines that an error's text leaves out.
func besides(err error) (lines []string) {
	switch e := err.(type) {
	case *RemoteError:
		if strings.Contains(e.Message, "\n") {
			lines = linesOf(e.Message)
		}
		return append(lines, linesOf(e.Stack)...)
	case *guard.Panic:
		return linesOf(string(e.Stack))
	case *WorkerLostError:
		return e.Stderr
	case *ExitError:
		return e.Stderr
	case *LaunchError:
		return e.Stderr
	}
	return nil
}

func linesOf(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// walk calls visit for an error and for those that it wraps, each before what it
// wraps itself, which is left out when visit returns false.
func walk(err error, visit func(error) bool) {
	if err == nil || !visit(err) {
		return
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			walk(err, visit)
		}
	}
}

// errorf is fmt.Errorf, but its text has one "fiber:", at the front: that of a
// wrapped error is left out. %+v prints all that the wrapped error says.
func errorf(format string, args ...any) error {
	err := exported(fmt.Errorf(format, args...))
	return &prefixed{withoutPrefixes(err.Error()), err}
}

// closedError is an ErrClosed that says what was closed.
func closedError(format string, args ...any) error {
	return &prefixed{"fiber: " + fmt.Sprintf(format, args...), ErrClosed}
}

// mismatch makes a MismatchError, whose text has one "fiber:", too.
func mismatch(format string, args ...any) error {
	return &MismatchError{Reason: withoutPrefixes(fmt.Sprintf(format, args...))}
}

// withoutPrefixes removes each "fiber:" but one at the front.
func withoutPrefixes(text string) string { return strings.ReplaceAll(text, ": fiber: ", ": ") }

// prefixed is an error with a text of its own.
type prefixed struct {
	text string
	err  error
}

func (e *prefixed) Error() string { return e.text }

func (e *prefixed) Format(s fmt.State, verb rune) { format(e, s, verb) }

func (e *prefixed) Unwrap() error { return e.err }

// oneValue removes the index from the error of encoding a single value.
func oneValue(err error) error {
	if e := (*codec.Error)(nil); errors.As(err, &e) {
		e.Index = -1
	}
	return err
}

// tooLarge makes an *EncodeError, which says what to do, of a *transport.SizeError
// in err. It returns nil if there is none, or already an *EncodeError around it.
func tooLarge(err error) *EncodeError {
	size := sizeError(err)
	if size == nil || errors.As(err, new(*EncodeError)) {
		return nil
	}
	return &EncodeError{Index: -1, Reason: size.Error() + whatToDo, Err: size}
}

// sizeError returns the *transport.SizeError in err, or nil. Nobody else has looked for one: a RemoteError does not mention it.
func sizeError(err error) (size *transport.SizeError) {
	walk(err, func(err error) bool {
		size, _ = err.(*transport.SizeError)
		return size == nil
	})
	return size
}

const whatToDo = "; set max_message (FIBER_MAX_MESSAGE) higher, or send it in parts"

// callerPackage returns the path of the package whose code calls an exported function.
func callerPackage() string {
	pc, _, _, _ := runtime.Caller(2)
	name := runtime.FuncForPC(pc).Name() // of a function: its package, a dot, its name
	slash := strings.LastIndexByte(name, '/') + 1
	pkg, _, _ := strings.Cut(name[slash:], ".")
	return name[:slash] + pkg
}

// callerLine returns the file:line of the user's call of an exported function.
func callerLine() string {
	_, file, line, ok := runtime.Caller(2)
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// exitError says how a process has ended.
func exitError(child *tree.Child) *ExitError {
	exit := child.Exit()
	e := &ExitError{Name: child.Name(), ID: child.Job().ID(), Code: exit.Code, OOM: exit.OOMKilled, Reason: exit.Reason, Stderr: exit.Stderr}
	if exit.Signal != 0 {
		e.Signal = exit.Signal.String()
	}
	return e
}

// workerLost makes the error of a task that was lost with its worker.
func workerLost(child *tree.Child, fn string, attempt, attempts int) error {
	e := exitError(child)
	return &WorkerLostError{Func: fn, Worker: e.Name, ID: e.ID, Host: child.Job().Host(), ExitCode: e.Code, Signal: e.Signal,
		OOM: e.OOM, Reason: e.Reason, Stderr: e.Stderr, Attempt: attempt, Attempts: attempts}
}

// notReady makes the error of a process that has ended before it was ready. reason
// is in front of the error that the process has reported, if it has.
func notReady(child *tree.Child, reason string) *LaunchError {
	e := tree.EndedEarly(child.Exit().ExitStatus, child.Exit().Stderr)
	if failure := child.Exit().Err; failure != nil {
		e = &backend.LaunchError{Reason: reason, Err: unflatten(failure)}
	}
	e.Backend, e.Job = child.Backend(), child.Name()
	return (*LaunchError)(e)
}
