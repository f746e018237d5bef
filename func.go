package fiber

import (
	"context"
	"fmt"
	"reflect"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/meta"
)

// Func is a function that other processes can run. Create it with Register.
type Func[In, Out any] struct {
	entry *registry.Func
	fn    func(context.Context, In) (Out, error)
	late  error // of using it, if it was registered too late
	plain bool  // see codec.Plain, of In
}

// Register makes a function runnable in other processes, under a name and with
// the resources that a process needs to run it. Call it while package variables
// are initialised, so that every process of the program has the same functions:
//
//	var square = fiber.Register("square", func(ctx context.Context, x int) (int, error) {
//		return x * x, nil
//	})
//
// To pass several arguments, use a struct. In and Out travel as msgpack, slices
// of numbers as their bytes. Register panics, with the file and line of the
// call, when the name is taken, a resource is out of range, or a type cannot
// travel: it contains a channel or a function, or is a struct with only
// unexported fields.
//
// A function that is registered after Main or Init has begun is known to this
// process alone. Whatever starts it elsewhere returns a *MismatchError with its
// name, file and line; Func.Call works.
func Register[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error), m ...meta.Option) *Func[In, Out] {
	where := callerLine()
	bad := func(reason string) { panic(fmt.Sprintf("%s: fiber.Register(%q): %s", where, name, reason)) }
	if fn == nil {
		bad("the function is nil")
	}
	resources, err := meta.Collect(m...)
	if err != nil {
		bad(err.Error())
	}
	in, out := signature[In]("its argument", bad), signature[Out]("its result", bad)
	f := &Func[In, Out]{fn: fn, plain: codec.Plain(reflect.TypeFor[In]())}
	f.entry = &registry.Func{
		Name: name, Resources: resources,
		Decode: func(frames [][]byte, lo int) (registry.Tasks, error) { return decodeTasks(fn, frames, lo) },
	}
	f.late = register(registry.Function, name, "("+in+") "+out, where, f.entry)
	return f
}

// register adds to the registry what a program registers. It returns an error for
// each use of what comes too late.
func register(kind registry.Kind, name, signature, where string, value any) error {
	if registry.Add(kind, name, signature, where, value) {
		return &MismatchError{Reason: fmt.Sprintf("the %s %q was registered at %s, when fiber.Main or fiber.Init had begun: no other process knows it; register it in a package variable", kind, name, where)}
	}
	return nil
}

// signature returns the text of a type, for comparison between builds. It calls
// bad if values of the type cannot travel.
func signature[T any](what string, bad func(reason string)) string {
	text, err := codec.Signature(reflect.TypeFor[T]())
	if err != nil {
		bad(what + ": " + err.Error())
	}
	return text
}

// Name returns the name that the function is registered under.
func (f *Func[In, Out]) Name() string {
	if f == nil || f.entry == nil {
		return ""
	}
	return f.entry.Name
}

// Resources returns what a process needs to run the function.
func (f *Func[In, Out]) Resources() meta.Resources {
	if f == nil || f.entry == nil {
		return meta.Resources{}
	}
	return f.entry.Resources
}

// usable returns the error of using the function in other processes.
func (f *Func[In, Out]) usable() error {
	if f == nil || f.entry == nil {
		return errEmpty("Func")
	}
	return f.late
}

// Call runs the function in this process.
func (f *Func[In, Out]) Call(ctx context.Context, in In) (out Out, err error) {
	switch {
	case f == nil || f.fn == nil:
		return out, errEmpty("Func")
	case ctx == nil:
		return out, errNilContext
	}
	return f.fn(ctx, in)
}

// batch holds the inputs of a grant and their outputs.
type batch[In, Out any] struct {
	fn     func(context.Context, In) (Out, error)
	lo     int // the index of the first input in its call
	ins    []In
	outs   []Out
	came   parcel         // what ins refer to
	failed []*codec.Error // of ins, each with its index in the call
}

// decodeTasks decodes the inputs of a function's tasks; see registry.Func.
func decodeTasks[In, Out any](fn func(context.Context, In) (Out, error), frames [][]byte, lo int) (registry.Tasks, error) {
	b := &batch[In, Out]{fn: fn, lo: lo}
	var err error
	if b.came, b.failed, err = unmarshalEach(frames, &b.ins, lo); err != nil {
		return nil, err
	}
	b.outs = make([]Out, len(b.ins))
	return b, nil
}

func (b *batch[In, Out]) Len() int { return len(b.ins) }

func (b *batch[In, Out]) Run(ctx context.Context, i int) (err error) {
	if b.came.ends != nil {
		if !b.came.known(ctx) {
			return context.Cause(ctx)
		}
		b.came.ends = nil // checked for all tasks of the batch, which run one after another
	}
	for len(b.failed) > 0 && b.failed[0].Index < b.lo+i {
		b.failed = b.failed[1:]
	}
	if len(b.failed) > 0 && b.failed[0].Index == b.lo+i {
		return fmt.Errorf("the argument: %w", b.failed[0])
	}
	b.outs[i], err = b.fn(ctx, b.ins[i])
	return err
}

func (b *batch[In, Out]) Clear(i int) {
	var zero Out
	b.outs[i] = zero
}

func (b *batch[In, Out]) Results(ctx context.Context, lo, hi int) (frames [][]byte, named any, failed []*codec.Error, err error) {
	return marshalEach(ctx, b.outs[lo:hi], b.lo+lo)
}

// typeName returns a name that differs for different Go types.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeName(t.Elem())
	}
	if t.Name() != "" && t.PkgPath() != "" {
		return t.PkgPath() + "." + t.Name()
	}
	return t.String()
}
