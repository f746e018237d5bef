package fiber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/wire"
)

// maxError bounds each part of an error on its way, in bytes: its text, its
// stack, and the errors of Fiber's own in it.
const maxError = 64 << 10

// errorBound is maxError, or less where messages must be small: a failure always
// fits one.
func errorBound() int {
	if p := here(); p != nil {
		return min(maxError, int(p.node.Config.MaxMessage)/8)
	}
	return maxError
}

// flatten turns the error of a function or a method, or its panic, into one that
// travels. With an fn of "", the error is on its way through this process: a
// *RemoteError keeps the function and the process that it came from. The error's
// methods are the user's, and may end their goroutine.
func flatten(fn string, err error) (e *wire.Error) {
	failed := guard.Call(func() error { e = flattenWithin(errorBound(), fn, err); return nil })
	if failed != nil {
		e = flattenWithin(errorBound(), fn, fmt.Errorf("%w, in a method of its error, a %T", failed, err))
	}
	return e
}

func flattenWithin(bound int, fn string, err error) (e *wire.Error) {
	if r, ok := err.(*RemoteError); ok && fn == "" {
		e = flattenWithin(bound, r.Func, &prefixed{r.Message, errors.Join(r.causes...)})
		e.Worker, e.Stack, e.Panic = r.Worker, shortened(r.Stack, bound), r.Stack != ""
		return e
	}
	panicked, _ := err.(*guard.Panic)
	if panicked != nil {
		var ok bool
		if err, ok = panicked.Value.(error); !ok {
			err = fmt.Errorf("%v", panicked.Value)
		}
	}
	e = &wire.Error{Func: fn, Message: shortened(fmt.Sprint(err), bound), Worker: processName()} // Sprint: its Error method may panic
	if panicked != nil {
		e.Panic, e.Stack = true, shortened(string(panicked.Stack), bound)
	}
	defer func() { recover() }() // its Is, As and Unwrap methods may panic, too: then the text travels
	e.Canceled, e.Replace = errors.Is(err, context.Canceled), errors.Is(err, ErrReplaceWorker)
	if sizeError(err) != nil && !strings.Contains(e.Message, "max_message") {
		e.Message += whatToDo
	}
	e.Matches, e.Types = sentinelsIn(err), typesIn(err)
	var left error
	if e.Details, left = detailsOf(err, bound); left != nil {
		e.Message += "; " + left.Error()
	}
	return e
}

// sentinelsIn lists the names of the registered errors that err is.
func sentinelsIn(err error) (names []string) {
	errorsKnown.RLock()
	sentinels := errorsKnown.sentinels // which is never changed: the errors' methods are the user's
	errorsKnown.RUnlock()
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			names = append(names, name)
		}
	}
	return names
}

// maxTypes bounds the types of an error that travel.
const maxTypes = 8

// typesIn lists the types of the program's own errors that err is.
func typesIn(err error) (names []string) {
	walk(err, func(err error) bool {
		if r, ok := err.(*RemoteError); ok {
			names = append(names, r.types...)
		} else if own := ownType(reflect.TypeOf(err)); own {
			names = append(names, typeName(reflect.TypeOf(err)))
		}
		return len(names) < maxTypes
	})
	return names[:min(len(names), maxTypes)]
}

// ownType says whether a type of errors is the program's own.
func ownType(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	path := t.PkgPath()
	root := reflect.TypeFor[Op]().PkgPath()
	return !slices.Contains([]string{"errors", "fmt", root, root + "/transport", root + "/backend"}, path) && !strings.HasPrefix(path, root+"/internal/")
}

// shortened cuts a text that is longer than n bytes.
func shortened(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(text[:n], ""), len(text))
}

// unflatten turns an error of another process into one of this process: a
// *RemoteError, or one of Fiber's own that no function has returned.
func unflatten(e *wire.Error) error {
	r := &RemoteError{Func: e.Func, Worker: e.Worker, Message: e.Message, Stack: e.Stack, types: e.Types}
	errorsKnown.RLock()
	for _, name := range e.Matches {
		if s := errorsKnown.sentinels[name]; s != nil {
			r.causes = append(r.causes, s)
		}
	}
	errorsKnown.RUnlock()
	for _, fields := range e.Details {
		var d detail
		if msgpack.Unmarshal([]byte(fields), &d) == nil {
			r.causes = append(r.causes, d.errors()...)
		}
	}
	for _, cause := range r.causes {
		if e.Func == "" && cause.Error() == e.Message { // the error itself
			return cause
		}
	}
	return r
}

// fromEngine turns an error of the engine into the user's.
func fromEngine(err error) error {
	if e, ok := err.(*wire.Error); ok {
		return unflatten(e)
	}
	return exported(err)
}

// detail is one of Fiber's own errors on its way inside another error: one field
// is set. The errors that it wraps follow, each as a detail of its own.
type detail struct {
	Ring     *ringDetail
	Task     *taskDetail
	Remote   *RemoteError
	Lost     *WorkerLostError
	Exit     *ExitError
	Mismatch *MismatchError
	Launch   *LaunchError
	Encode   *EncodeError
	Own      *errorDetail // of a registered type
}

// ringDetail is an encoded RingError.
type ringDetail struct {
	Ring  string
	Rank  int
	Cause wire.Error
}

// taskDetail is an encoded TaskError.
type taskDetail struct {
	Func, Worker   string
	Index, Attempt int
	Single         bool
	Cause          wire.Error
}

// errors returns the field that is set, as it was.
func (d *detail) errors() []error {
	if d.Ring != nil {
		return []error{&RingError{Ring: d.Ring.Ring, Rank: d.Ring.Rank, Err: unflatten(&d.Ring.Cause)}}
	}
	if t := d.Task; t != nil {
		return []error{&TaskError{Func: t.Func, Index: t.Index, Worker: t.Worker, Attempt: t.Attempt, Err: unflatten(&t.Cause), single: t.Single}}
	}
	if d.Own != nil {
		if err := d.Own.error(); err != nil {
			return []error{err}
		}
		return nil
	}
	own := []error{d.Remote, d.Lost, d.Exit, d.Mismatch, d.Launch, d.Encode}
	return slices.DeleteFunc(own, func(err error) bool { return reflect.ValueOf(err).IsNil() })
}

// detailsOf encodes the errors of Fiber's own, and those of registered types, in err,
// in the order in which errors.As finds them, as many as fit. left says which one
// cannot travel.
func detailsOf(err error, bound int) (all []string, left error) {
	err = exported(err)
	if large := tooLarge(err); large != nil {
		err = errors.Join(err, large)
	}
	walk(err, func(err error) bool {
		d, wraps, failed := detailOf(err, bound/4)
		left = cmp.Or(left, failed)
		if d == nil {
			return wraps
		}
		fields, err := msgpack.Marshal(d)
		if err == nil && len(fields) <= bound {
			bound -= len(fields)
			all = append(all, string(fields))
		}
		return wraps
	})
	return all, left
}

// detailOf returns the detail of an error, nil unless it is one of Fiber's own or of
// a registered type, and whether there are more in what it wraps. bound limits each
// text in it. failed says why the value of a registered type cannot travel.
func detailOf(err error, bound int) (d *detail, wraps bool, failed error) {
	its, _ := public(err)
	switch e := its.(type) {
	case *RingError:
		if bound < minError {
			return nil, false, nil
		}
		return &detail{Ring: &ringDetail{Ring: e.Ring, Rank: e.Rank, Cause: *flattenWithin(bound, "", e.Err)}}, false, nil
	case *TaskError:
		if bound < minError {
			return nil, false, nil
		}
		return &detail{Task: &taskDetail{e.Func, e.Worker, e.Index, e.Attempt, e.single, *flattenWithin(bound, "", e.Err)}}, false, nil
	case *RemoteError:
		return &detail{Remote: &RemoteError{Func: e.Func, Worker: e.Worker, Message: shortened(e.Message, bound), Stack: shortened(e.Stack, bound)}}, true, nil
	case *WorkerLostError:
		flat := *e
		flat.Reason, flat.Stderr = shortened(e.Reason, bound), within(e.Stderr, bound)
		return &detail{Lost: &flat}, false, nil
	case *ExitError:
		flat := *e
		flat.Reason, flat.Stderr = shortened(e.Reason, bound), within(e.Stderr, bound)
		return &detail{Exit: &flat}, false, nil
	case *MismatchError:
		return &detail{Mismatch: &MismatchError{Reason: shortened(e.Reason, bound)}}, false, nil
	case *LaunchError:
		flat := *e
		flat.Reason, flat.Err, flat.Stderr = shortened((*backend.LaunchError)(e).Why(), bound), nil, within(e.Stderr, bound)
		return &detail{Launch: &flat}, true, nil
	case *EncodeError:
		flat := *e
		flat.Reason, flat.Err = shortened(e.Reason, bound), nil
		return &detail{Encode: &flat}, true, nil
	}
	errorsKnown.RLock()
	known := errorsKnown.types[typeName(reflect.TypeOf(err))]
	errorsKnown.RUnlock()
	if known == nil || bound < minError {
		return nil, true, nil
	}
	own, failed := known.encode(err, bound)
	if own == nil {
		return nil, true, failed
	}
	return &detail{Own: own}, true, nil
}

// minError is the bound below which an error's cause does not travel any more.
const minError = 64

// within returns the last lines, as many as fit into n bytes.
func within(lines []string, n int) []string {
	for i := range slices.Backward(lines) {
		if n -= len(lines[i]); n < 0 {
			return lines[i+1:]
		}
	}
	return lines
}
