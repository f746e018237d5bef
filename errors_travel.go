package fiber

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
		Canceled: errors.Is(err, context.Canceled)}
	if panicked != nil {
		e.Panic, e.Stack = true, string(panicked.Stack)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) && !strings.Contains(e.Message, "max_message") {
		e.Message += whatToDo
	}
	sentinels.RLock()
	for text, sentinel := range sentinels.byText {
		if errors.Is(err, sentinel) {
			e.Matches = append(e.Matches, text)
		}
	}
	sentinels.RUnlock()
	if d, ok := detailsOf(err); ok {
		if fields, err := msgpack.Marshal(d); err == nil {
			e.Detail = string(fields)
		}
	}
	return e
}

// unflatten turns an error of another process into one of this process.
func unflatten(e *wire.Error) *RemoteError {
	r := &RemoteError{Func: e.Func, Worker: e.Worker, Message: e.Message, Stack: e.Stack}
	sentinels.RLock()
	for _, text := range e.Matches {
		if s := sentinels.byText[text]; s != nil {
			r.causes = append(r.causes, s)
		}
	}
	sentinels.RUnlock()
	var d details
	if msgpack.Unmarshal([]byte(e.Detail), &d) == nil {
		own := []error{d.Lost, d.Exit, d.Mismatch, d.Launch, d.Encode}
		r.causes = append(r.causes, slices.DeleteFunc(own, func(err error) bool { return reflect.ValueOf(err).IsNil() })...)
		if d.Ring != nil {
			r.causes = append(r.causes, &RingError{Ring: d.Ring.Ring, Rank: d.Ring.Rank, Err: unflattenCause(&d.Ring.Cause)})
		}
	}
	return r
}

// fromEngine turns an error of the engine into the user's.
func fromEngine(err error) error {
	if e, ok := err.(*wire.Error); ok {
		return unflatten(e)
	}
	if large := tooLarge(err); large != nil {
		return errorf("fiber: the argument: %w", large)
	}
	return err
}

// details is how one of Fiber's own errors travels inside another error: one
// field is set.
type details struct {
	Ring     *ringDetail
	Lost     *WorkerLostError
	Exit     *ExitError
	Mismatch *MismatchError
	Launch   *LaunchError
	Encode   *EncodeError
}

// detailsOf finds an error of Fiber's own in err. Of the errors that one wraps
// in turn, only the text travels.
func detailsOf(err error) (d details, ok bool) {
	var ring *RingError
	if large := tooLarge(err); large != nil {
		err = large
	}
	switch {
	case errors.As(err, &ring): // it wraps any of the others
		d.Ring = &ringDetail{Ring: ring.Ring, Rank: ring.Rank, Cause: *flattenCause(ring.Err)}
	case errors.As(err, &d.Lost), errors.As(err, &d.Exit), errors.As(err, &d.Mismatch):
	case errors.As(err, &d.Launch):
		flat := *d.Launch
		if flat.Err != nil {
			flat.Reason, flat.Err = strings.TrimPrefix(flat.Reason+": "+strings.TrimPrefix(flat.Err.Error(), "fiber: "), ": "), nil
		}
		d.Launch = &flat
	case errors.As(err, &d.Encode):
		flat := *d.Encode
		flat.Err = nil
		d.Encode = &flat
	default:
		return d, false
	}
	return d, true
}

// The errors of others that errors.Is finds in a RemoteError.
var (
	_ = RegisterError(context.Canceled)
	_ = RegisterError(context.DeadlineExceeded)
)
