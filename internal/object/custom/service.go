// Package custom implements managed objects in their manager: it makes them, and
// runs the methods of those that are of the user's own types. Fiber's own types
// are package builtin's.
package custom

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// The operations of a Service and of the objects that it makes.
const (
	New  object.Op[Argument, uint64]        = iota // make an object of a registered type; the answer is its number
	Make object.Op[builtin.Making, uint64]  = iota // make an object of Fiber's own; the answer is its number
	Call object.Op[Argument, object.Frames] = iota // call a registered method
)

// Argument names a type or a method of the user's, with the value to call its
// constructor, or the method, with.
type Argument struct {
	Name  string
	Value object.Frames
}

// Failed is the code of a refusal whose text is an encoded wire.Error.
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

	brief atomic.Bool // the last call was
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
	// Make makes an object of Fiber's own.
	Make func(h *object.Server, m builtin.Making) (object.Object, error)
}

// Service is the object.Object that makes other objects in its process.
type Service struct {
	home *object.Server
	opts Options
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	ended   bool
	given   map[*object.Request]context.CancelFunc // of running constructors
	objects map[*instance]struct{}                 // not closed yet
	idle    chan struct{}                          // closed when both are empty; nil until End waits
}

// NewService makes a service. The contexts of methods and constructors end with
// ctx.
func NewService(ctx context.Context, h *object.Server, opts Options) *Service {
	s := &Service{home: h, opts: opts, given: map[*object.Request]context.CancelFunc{}, objects: map[*instance]struct{}{}}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

var serviceTable = object.Ops(
	object.On(New, (*Service).make),
	object.On(Make, func(s *Service, r object.Asked[uint64], m builtin.Making) {
		o, err := s.opts.Make(s.home, m)
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
	ctx, cancel := context.WithCancel(s.ctx)
	if !s.enter(r.Request, cancel) {
		cancel()
		r.Fail(object.Gone, "")
		return
	}
	go s.construct(ctx, cancel, r, in, t)
}

// enter marks a constructor as running, unless the service has ended.
func (s *Service) enter(r *object.Request, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.given[r] = cancel
	}
	return !s.ended
}

// construct runs a type's constructor.
func (s *Service) construct(ctx context.Context, cancel context.CancelFunc, r object.Asked[uint64], in Argument, t *Type) {
	var made any
	failure := s.guard(in.Name, func() (err error) {
		made, err = t.New(ctx, in.Value)
		return err
	})
	var o *instance
	s.mu.Lock()
	ended := s.ended
	delete(s.given, r.Request)
	if failure == nil {
		o = &instance{service: s, typ: t, name: in.Name, object: made}
		s.objects[o] = struct{}{}
	}
	s.rest()
	s.mu.Unlock()
	cancel()
	switch {
	case failure != nil && failure.Canceled && ended:
		r.Fail(object.Gone, "")
	case failure != nil:
		fail(r.Request, failure)
	case ended:
		o.Drop()
		r.Fail(object.Gone, "")
	case !r.Wanted():
		o.Drop()
	default:
		s.name(r, o)
	}
}

// name registers an object and answers with its number.
func (s *Service) name(r object.Asked[uint64], o object.Object) {
	ref, err := s.home.Make(o, false)
	if err != nil {
		o.Drop()
		r.Fail(object.Gone, "") // the manager ends
		return
	}
	r.Reply(ref.Object)
}

// GiveUp cancels a constructor's context.
func (s *Service) GiveUp(r *object.Request) {
	s.mu.Lock()
	cancel := s.given[r]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	r.Fail(object.GivenUp, "")
}

// Left does nothing: a manager lives until it is closed.
func (s *Service) Left(*object.Session, bool) {}

// Drop does nothing: see End.
func (s *Service) Drop() {}

// End refuses further calls, and cancels the contexts of all constructors and
// methods that run. It returns when they have returned and all objects are
// closed, or when ctx ends.
func (s *Service) End(ctx context.Context) {
	s.mu.Lock()
	s.ended = true
	var objects []*instance
	for o := range s.objects {
		objects = append(objects, o)
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
		s.rest()
	}
	s.mu.Unlock()
	for _, o := range objects {
		o.Drop()
	}
	s.stop()
	select {
	case <-s.idle:
	case <-ctx.Done():
	}
}

// done says that an object is closed.
func (s *Service) done(o *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, o)
	s.rest()
}

// rest wakes End if nothing is left. The lock is held.
func (s *Service) rest() {
	if s.idle != nil && len(s.given) == 0 && len(s.objects) == 0 {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

// guard calls a function of the user's; a panic in it becomes an error.
func (s *Service) guard(name string, call func() error) *wire.Error {
	if err := guard.Call(call); err != nil {
		return s.opts.Error(name, err)
	}
	return nil
}

func fail(r *object.Request, failure *wire.Error) {
	frames, err := codec.Marshal(failure)
	if err != nil || len(frames) != 1 {
		r.Fail(object.Unknown, failure.Message)
		return
	}
	r.Fail(Failed, string(frames[0]))
}

// Failure decodes the text of a refusal with the code Failed.
func Failure(text string) *wire.Error {
	failure := new(wire.Error)
	if err := codec.Unmarshal([][]byte{[]byte(text)}, failure); err != nil {
		failure.Message = text
	}
	return failure
}
