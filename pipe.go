package fiber

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/pipe"
	"github.com/fiber-go/fiber/internal/wire"
)

// Conn is an end of a pipe that both sends and receives. See Pipe.
type Conn[T any] struct{ end *pipeEnd }

// Receiver is the end of a one-way pipe that receives. See PipeOneWay.
type Receiver[T any] struct{ end *pipeEnd }

// Sender is the end of a one-way pipe that sends. See PipeOneWay.
type Sender[T any] struct{ end *pipeEnd }

// Pipe makes a pipe: what is sent into one end is received at the other, in
// the same order, both ways. The error is ErrNotInitialized, or a T that
// cannot travel.
//
// Each end belongs to one process. It travels as (part of) an argument, a
// result, or an item of a queue, and then belongs to whoever has got it, with
// all that was not received; where it was, using it gives ErrClosed. As an
// argument of a Process it has gone when Start has returned, and if that
// failed it is still here; as the argument of a pool's task it goes when a
// worker takes the task up. Any goroutine of its process may use it.
//
// An end that is closed, that nobody can use any more, or whose process has
// ended, however it ended, ends the pipe: at the other end Recv gives what was
// sent before, and then io.EOF, and Send gives ErrClosed. So does the end of the
// process that made the pipe, through which the items go.
func Pipe[T any]() (*Conn[T], *Conn[T], error) {
	a, b, err := makePipe[T]("Pipe")
	if err != nil {
		return nil, nil, err
	}
	return &Conn[T]{a}, &Conn[T]{b}, nil
}

// PipeOneWay makes a pipe that goes one way; otherwise it is as Pipe's.
func PipeOneWay[T any]() (r *Receiver[T], w *Sender[T], err error) {
	a, b, err := makePipe[T]("PipeOneWay")
	if err != nil {
		return nil, nil, err
	}
	return &Receiver[T]{a}, &Sender[T]{b}, nil
}

func makePipe[T any](constructor string) (a, b *pipeEnd, err error) {
	proc, err := running()
	if err != nil {
		return nil, nil, err
	}
	if err := travels[T](constructor, "its items"); err != nil {
		return nil, nil, err
	}
	one, two, err := pipe.Make(proc.home)
	if err != nil {
		return nil, nil, err
	}
	return newPipeEnd(proc, one), newPipeEnd(proc, two), nil
}

// Send sends a value to the other end. It returns when the value has left this
// process, and waits while much of what was sent is not received yet, about a
// megabyte or 256 values. The error is ErrClosed when the other end, or this
// one, is gone; the ctx's; or an *EncodeError.
func (c *Conn[T]) Send(ctx context.Context, v T) error { return sendPipe(ctx, c.pipeEnd(), v) }

// Recv waits for a value from the other end. The error is io.EOF when the
// other end is gone and nothing is left, ErrClosed when this end is gone, or
// the ctx's.
func (c *Conn[T]) Recv(ctx context.Context) (T, error) { return recvPipe[T](ctx, c.pipeEnd()) }

// Close ends the pipe. What was received from it and not given to anybody is
// lost; what was sent is not. A second call does nothing, nor does one where
// the end is not any more.
func (c *Conn[T]) Close() error { return c.pipeEnd().close() }

// Send is Conn's.
func (s *Sender[T]) Send(ctx context.Context, v T) error { return sendPipe(ctx, s.pipeEnd(), v) }

// Close is Conn's.
func (s *Sender[T]) Close() error { return s.pipeEnd().close() }

// Recv is Conn's.
func (r *Receiver[T]) Recv(ctx context.Context) (T, error) { return recvPipe[T](ctx, r.pipeEnd()) }

// Close is Conn's.
func (r *Receiver[T]) Close() error { return r.pipeEnd().close() }

// MarshalBinary gives the end's name, which is of use to whoever the end is sent
// to.
func (c *Conn[T]) MarshalBinary() ([]byte, error) { return marshalEnd[T](c.end, bothWays) }

// UnmarshalBinary takes an end over.
func (c *Conn[T]) UnmarshalBinary(b []byte) (err error) {
	c.end, err = unmarshalEnd[T](b, bothWays)
	return err
}

// MarshalBinary gives the end's name, which is of use to whoever the end is sent
// to.
func (s *Sender[T]) MarshalBinary() ([]byte, error) { return marshalEnd[T](s.end, sends) }

// UnmarshalBinary takes an end over.
func (s *Sender[T]) UnmarshalBinary(b []byte) (err error) {
	s.end, err = unmarshalEnd[T](b, sends)
	return err
}

// MarshalBinary gives the end's name, which is of use to whoever the end is sent
// to.
func (r *Receiver[T]) MarshalBinary() ([]byte, error) { return marshalEnd[T](r.end, receives) }

// UnmarshalBinary takes an end over.
func (r *Receiver[T]) UnmarshalBinary(b []byte) (err error) {
	r.end, err = unmarshalEnd[T](b, receives)
	return err
}

func (c *Conn[T]) pipeEnd() *pipeEnd {
	if c == nil {
		return nil
	}
	return c.end
}

func (s *Sender[T]) pipeEnd() *pipeEnd {
	if s == nil {
		return nil
	}
	return s.end
}

func (r *Receiver[T]) pipeEnd() *pipeEnd {
	if r == nil {
		return nil
	}
	return r.end
}

// What an end can do.
const (
	receives = 1 << iota
	sends
	bothWays = receives | sends
)

func sendPipe[T any](ctx context.Context, e *pipeEnd, v T) error {
	if e == nil {
		return errEmptyEnd
	}
	item, err := encode("the item", v)
	if err != nil {
		return err
	}
	if err := e.proc.fitsSize(item.Size()); err != nil {
		return fmt.Errorf("fiber: the item: %w", err)
	}
	err = e.port.Send(ctx, item)
	runtime.KeepAlive(e)
	if err == nil && len(item.Refs) > 0 { // it has left, and may not have come
		go func() {
			e.port.Kept()
			runtime.KeepAlive(item)
		}()
	}
	return pipeError(err)
}

func recvPipe[T any](ctx context.Context, e *pipeEnd) (T, error) {
	var v T
	if e == nil {
		return v, errEmptyEnd
	}
	item, err := e.port.Recv(ctx)
	runtime.KeepAlive(e)
	if err != nil {
		return v, pipeError(err)
	}
	came, err := unmarshal(item.Frames, &v)
	if len(item.Refs) > 0 {
		came.then(ctx, func() error { e.port.Took(item); return nil })
	}
	if err != nil {
		return v, &MismatchError{Reason: fmt.Sprintf("an item of the pipe is no %v: %v", reflect.TypeFor[T](), err)}
	}
	return v, nil
}

// marshalEnd makes a ticket: the end's name, its generation, its sort,
// and the type of its items.
func marshalEnd[T any](e *pipeEnd, sort byte) ([]byte, error) {
	if e == nil {
		return nil, errEmptyEnd
	}
	gen, err := e.port.Generation()
	if err != nil {
		return nil, pipeError(err)
	}
	name, err := e.port.Ref().MarshalBinary()
	b := append(wire.AppendUvarint(name, gen), sort)
	return append(b, typeName(reflect.TypeFor[T]())...), err
}

func unmarshalEnd[T any](b []byte, sort byte) (*pipeEnd, error) {
	var ref object.Ref
	more, err := ref.Read(b)
	r := wire.Reader{B: more}
	gen, mark := r.Uvarint(), r.Bytes(1)
	if err = errors.Join(err, r.Err); err != nil {
		return nil, err
	}
	if mark[0] != sort {
		return nil, &MismatchError{Reason: "the end of the pipe is of another kind; send a Conn as a Conn, a Receiver as a Receiver, a Sender as a Sender"}
	}
	if want := typeName(reflect.TypeFor[T]()); string(r.B) != want {
		return nil, &MismatchError{Reason: fmt.Sprintf("the pipe is one of %s, not of %s", r.B, want)}
	}
	p, err := running()
	if err != nil {
		return nil, err
	}
	return newPipeEnd(p, pipe.Claim(p.home, ref, gen)), nil
}
