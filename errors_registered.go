package fiber

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"reflect"
	"sync"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/wire"
)

// errorsKnown are the errors that are found in a RemoteError again.
var errorsKnown = struct {
	sync.RWMutex
	sentinels map[string]error      // by their package and text
	types     map[string]*errorType // by the names of their types
}{sentinels: map[string]error{}, types: map[string]*errorType{}}

// RegisterError makes a sentinel error known to all processes, so that
// errors.Is still finds it in a RemoteError. Like Register, call it while
// package variables are initialised. It returns err, and panics when err is nil,
// or the package that calls it has registered another error with the same text.
//
//	var ErrDiverged = fiber.RegisterError(errors.New("diverged"))
func RegisterError(err error) error {
	if err == nil {
		panic(callerLine() + ": fiber.RegisterError: the error is nil")
	}
	pkg := callerPackage()
	errorsKnown.Lock()
	defer errorsKnown.Unlock()
	name := pkg + ": " + err.Error()
	if old, ok := errorsKnown.sentinels[name]; ok && old != err {
		panic(fmt.Sprintf("%s: fiber.RegisterError: another error with the text %q is registered", callerLine(), err.Error()))
	}
	errorsKnown.sentinels = maps.Clone(errorsKnown.sentinels)
	errorsKnown.sentinels[name] = err
	return err
}

// The errors of the standard library that programs ask for, and Fiber's own that are
// not registered where they are declared.
func init() {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission,
		os.ErrDeadlineExceeded, net.ErrClosed, exec.ErrNotFound, ErrNotInitialized, ErrStarted, ErrNotStarted} {
		RegisterError(err)
	}
}

// registered reports whether a sentinel is known.
func registered(err error) bool {
	if !reflect.TypeOf(err).Comparable() {
		return false
	}
	errorsKnown.RLock()
	defer errorsKnown.RUnlock()
	for _, known := range errorsKnown.sentinels {
		if known == err {
			return true
		}
	}
	return false
}

// RegisterErrorType makes errors of a type arrive as that type, so that errors.As
// finds them in a RemoteError, with what their exported fields hold. E is a struct or
// a pointer to one, or a type without fields. Fields of type error travel as errors
// do; unexported ones arrive as zeros. The text of an error that cannot travel as its
// type, since a field holds a cycle, for example, says so. Like Register, call it while package variables
// are initialised:
//
//	var _ = fiber.RegisterErrorType[*QuotaError]()
//
// It returns the type's name. It panics, with the file and line of the call, when a
// field cannot travel.
func RegisterErrorType[E error]() string {
	t := reflect.TypeFor[E]()
	e, err := newErrorType(t)
	if err != nil {
		panic(fmt.Sprintf("%s: fiber.RegisterErrorType[%v]: %v", callerLine(), t, err))
	}
	errorsKnown.Lock()
	defer errorsKnown.Unlock()
	errorsKnown.types[typeName(t)] = e
	return typeName(t)
}

// registeredType reports whether a type of errors is known.
func registeredType(t reflect.Type) bool {
	errorsKnown.RLock()
	defer errorsKnown.RUnlock()
	return errorsKnown.types[typeName(t)] != nil
}

// errorType is a registered type of errors. Its values travel as those of a struct
// with its exported fields, except those that are errors.
type errorType struct {
	typ    reflect.Type
	fields []int        // that travel, by their places in the type
	errs   []int        // that are errors
	same   reflect.Type // the struct that travels; without fields, the type itself
}

func newErrorType(t reflect.Type) (*errorType, error) {
	e := &errorType{typ: t, same: t}
	if t.Kind() == reflect.Interface {
		return nil, errors.New("it is an interface; register the types that implement it")
	}
	if t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Struct {
		return nil, errors.New("it is a pointer, but not to a struct; use a type without a pointer")
	}
	if s := e.structure(); s.Kind() == reflect.Struct {
		var fields []reflect.StructField
		for f := range s.Fields() {
			switch {
			case !f.IsExported():
			case f.Type == reflect.TypeFor[error]():
				e.errs = append(e.errs, f.Index[0])
			default:
				e.fields = append(e.fields, f.Index[0])
				fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
			}
		}
		e.same = reflect.StructOf(fields)
	}
	_, err := codec.Signature(e.same)
	return e, err
}

func (e *errorType) structure() reflect.Type {
	if e.typ.Kind() == reflect.Pointer {
		return e.typ.Elem()
	}
	return e.typ
}

// errorDetail is a value of a registered type on its way.
type errorDetail struct {
	Type   string
	Frames [][]byte
	Errs   map[string]*wire.Error // the fields that are errors, by their names
}

// encode returns an error's detail, nil if it cannot travel, and then why.
func (e *errorType) encode(err error, bound int) (*errorDetail, error) {
	v := reflect.Indirect(reflect.ValueOf(err))
	if !v.IsValid() {
		return nil, fmt.Errorf("it does not arrive as a %v, since it is nil", e.typ)
	}
	d := &errorDetail{Type: typeName(e.typ)}
	same := v
	if e.same != e.typ {
		same = reflect.New(e.same).Elem()
		for i, field := range e.fields {
			same.Field(i).Set(v.Field(field))
		}
	}
	for _, field := range e.errs {
		if inner, ok := v.Field(field).Interface().(error); ok {
			if d.Errs == nil {
				d.Errs = map[string]*wire.Error{}
			}
			d.Errs[v.Type().Field(field).Name] = flattenWithin(bound/2, "", inner)
		}
	}
	var failed error
	if d.Frames, failed = codec.Marshal(same.Interface()); failed != nil {
		return nil, fmt.Errorf("it does not arrive as a %v: %w", e.typ, failed)
	}
	return d, nil
}

// error returns the error that encode has encoded, nil if its type is not known here.
func (d *errorDetail) error() error {
	errorsKnown.RLock()
	e := errorsKnown.types[d.Type]
	errorsKnown.RUnlock()
	if e == nil {
		return nil
	}
	same := reflect.New(e.same)
	if codec.Unmarshal(d.Frames, same.Interface()) != nil {
		return nil
	}
	v := same
	if e.same != e.typ {
		v = reflect.New(e.structure())
		for i, field := range e.fields {
			v.Elem().Field(field).Set(same.Elem().Field(i))
		}
		for _, field := range e.errs {
			if flat := d.Errs[v.Elem().Type().Field(field).Name]; flat != nil {
				v.Elem().Field(field).Set(reflect.ValueOf(asItWas(flat)))
			}
		}
	}
	if e.typ.Kind() != reflect.Pointer {
		v = v.Elem()
	}
	err := v.Interface().(error)
	if guard.Call(func() error { usable(err); return nil }) != nil {
		return nil
	}
	return err
}

// asItWas returns an error that no function has returned, with the text that it had.
func asItWas(flat *wire.Error) error {
	err := unflatten(flat)
	if r, ok := err.(*RemoteError); ok && r.Func == "" {
		return &prefixed{r.Message, errors.Join(r.causes...)}
	}
	return err
}

// usable calls the methods of an error that everybody calls, whom a panic in them
// would surprise: what is not exported did not travel.
func usable(err error) {
	_ = err.Error()
	_ = errors.Is(err, io.EOF)
	_ = errors.As(err, new(*RemoteError))
}
