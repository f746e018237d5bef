package fiber

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// flatten turns a function's error, or its panic, into one that travels.
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

// unflatten turns an error of another process into one of this process.
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

// fromEngine turns an error of the engine into the user's.
func fromEngine(err error) error {
	if e, ok := err.(*wire.Error); ok {
		return unflatten(e)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) && !strings.Contains(err.Error(), "max_message") {
		return errorf("fiber: the argument: %w; %s", err, whatToDo)
	}
	return err
}

// kind says how one of Fiber's own errors travels inside another error.
type kind struct {
	name   string
	find   func(error) (detail any, ok bool)
	decode func([]byte) error // returns nil for a detail that it cannot decode
}

// own makes the kind of an error type that has only exported fields.
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

// kinds are Fiber's own errors. One that wraps another comes first.
var kinds = []kind{
	own("WorkerLostError", func() *WorkerLostError { return new(WorkerLostError) }, same),
	own("ExitError", func() *ExitError { return new(ExitError) }, same),
	own("MismatchError", func() *MismatchError { return new(MismatchError) }, same),
	own("LaunchError", func() *LaunchError { return new(LaunchError) }, func(e *LaunchError) *LaunchError {
		flat := *e
		if e.Err != nil { // only the text of the cause travels
			flat.Reason, flat.Err = strings.TrimPrefix(e.Reason+": "+strings.TrimPrefix(e.Err.Error(), "fiber: "), ": "), nil
		}
		return &flat
	}),
	own("EncodeError", func() *EncodeError { return new(EncodeError) }, func(e *EncodeError) *EncodeError {
		flat := *e
		flat.Err = nil
		return &flat
	}),
}
