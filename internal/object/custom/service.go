// Package custom implements managed objects in their manager: it makes them, and
// runs the methods of those that are of the user's own types. Fiber's own types
// are package builtin's.
package custom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a Service and of the objects that it makes.
const (
	New  object.Op[Argument, uint64]       = iota // make an object of a registered type; the answer is its number
	Make object.Op[builtin.Making, uint64] = iota // make an object of Fiber's own; the answer is its number
	Call object.Op[Argument, object.Value] = iota // call a registered method
)

// Argument names a type or a method of the user's, with the value to call its
// constructor, or the method, with.
type Argument struct {
	Name  string
	Value object.Value
}

// Append appends the packed argument to b and frames.
func (a *Argument) Append(b []byte, frames [][]byte) ([]byte, [][]byte) {
	return a.Value.Append(wire.AppendString(b, a.Name), frames)
}

// Read takes a packed argument.
func (a *Argument) Read(in *wire.Reader) {
	a.Name = in.String()
	a.Value.Read(in)
}

// Failed is the code of a refusal whose text is a packed wire.Done.
const Failed = object.OwnCodes + 8

// Type is a registered type of managed objects.
type Type struct {
	Recv       string // the Go type, which methods name as well
	Concurrent bool   // its methods may be called from many goroutines at once
	New        func(ctx context.Context, in [][]byte) (any, error)
}

// Method is a registered method. The objects that its result names live as long
// as named, which is nil when there are none.
type Method struct {
	Recv string
	Call func(ctx context.Context, receiver any, in [][]byte) (out [][]byte, named any, err error)
}

// Options is what a service needs of the typed edge.
type Options struct {
	// Error makes the error of a user's function, such as a *guard.Panic, ready to
	// travel.
	Error func(fn string, err error) *wire.Error
	// Fits returns an error if a result is too large for a message.
	Fits func(frames [][]byte) error
	// Log logs a failure that no caller waits for: that of an object's Close.
	Log func(name string, failure *wire.Error)
}

// Service is the object.Object that makes other objects in its process. The code
// that it runs is the types' constructors.
type Service struct {
	*runner
	home *object.Server
	opts Options
	ctx  context.Context
	stop context.CancelFunc

	open    sync.WaitGroup         // the service itself, and all objects that are not closed
	objects map[*instance]struct{} // the same, under mu
}

// NewService makes a service. The contexts of methods and constructors end with
// End.
func NewService(h *object.Server, opts Options) *Service {
	s := &Service{home: h, opts: opts, objects: map[*instance]struct{}{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.open.Add(1)
	s.runner = newRunner(s, true, s.open.Done)
	return s
}

var serviceTable = object.Ops(
	object.On(New, (*Service).make),
	object.On(Make, func(s *Service, r object.Asked[uint64], m builtin.Making) {
		o, err := builtin.Make(s.home, m)
		if err != nil {
			r.Fail(object.Unknown, err.Error())
			return
		}
		s.name(r, o)
	}),
)

// Serve takes a request.
func (s *Service) Serve(r *object.Request) { serviceTable.Serve(s, r) }

// make makes an object of a registered type.
func (s *Service) make(r object.Asked[uint64], in Argument) {
	t, ok := registry.Find(registry.Type, in.Name).(*Type)
	if !ok {
		r.Fail(object.Unknown, fmt.Sprintf("type %q is not registered in the manager's process", in.Name))
		return
	}
	var made any
	s.begin(&call{r: r.Request,
		do: func(ctx context.Context) (err error) {
			made, err = t.New(ctx, in.Value.Frames())
			return err
		},
		answer: func(err error) {
			if err != nil {
				s.fail(r.Request, in.Name, err)
				return
			}
			o := &instance{typ: t, name: in.Name, object: made}
			o.runner = newRunner(s, t.Concurrent, o.close)
			s.open.Add(1)
			s.mu.Lock()
			s.objects[o] = struct{}{}
			dropped := s.dropped
			s.mu.Unlock()
			if !r.Wanted() {
				o.Drop()
				return
			}
			if dropped {
				o.Drop()
				r.Fail(object.Gone, "")
				return
			}
			s.name(r, o)
		}})
}

// name registers an object and answers with its number.
func (s *Service) name(r object.Asked[uint64], o object.Object) {
	ref, err := s.home.MakeFor(o)
	if err != nil {
		o.Drop()
		r.Fail(object.Gone, "") // the manager ends
		return
	}
	r.Reply(ref.Object)
}

// End refuses further calls, and cancels the contexts of all constructors and
// methods that run. It returns when they have returned and all objects are
// closed, or when ctx ends. The home knows already how it ends (Server.Ends):
// what is refused says that.
func (s *Service) End(ctx context.Context) {
	s.Drop()
	s.mu.Lock()
	objects := slices.Collect(maps.Keys(s.objects))
	s.mu.Unlock()
	for _, o := range objects {
		o.Drop()
	}
	s.stop()
	closed := make(chan struct{})
	go func() {
		s.open.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
