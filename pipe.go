package fiber

import (
	"context"
	"errors"
	"io"
	"iter"
	"reflect"
	"runtime"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/pipe"
	"github.com/fiber-go/fiber/internal/wire"
)

// Conn is an end of a two-way pipe: it sends and receives. See Pipe.
type Conn[T any] struct{ end *pipeEnd }

// Receiver is the receiving end of a one-way pipe. See PipeOneWay.
type Receiver[T any] struct{ end *pipeEnd }

// Sender is the sending end of a one-way pipe. See PipeOneWay.
type Sender[T any] struct{ end *pipeEnd }

// Pipe makes a two-way pipe: the values that are sent into one end are received
// at the other, in the same order. It returns ErrNotInitialized before Init,
// and an error if T cannot travel.
//
// Each end belongs to one process, any goroutine of which may use it. An end
// travels as (part of) an argument, a result, or an item of a queue; it then
// belongs to the process that receives it, together with all items that were
// not received. In the process that it has left, using it returns ErrClosed. As
// an argument of a Process, it has left when Start has succeeded; after a
// failed Start it is still here. As the argument of a pool's task, it leaves
// when a worker takes up the task; as an item or in a result, when somebody
// receives it. What is sent here until Send returns ErrClosed arrives, before
// whatever the next process sends. An end that is in a value several times is one
// end where it arrives, too.
//
// The pipe ends when an end is closed or becomes unreachable, or when the
// process that has it ends for whatever reason. At the other end, Recv then
// returns the items that were sent before, and after them io.EOF; Send returns
// ErrClosed. The pipe also ends with the process that made it, through which
// the items go.
func Pipe[T any]() (*Conn[T], *Conn[T], error) {
	a, b, err := makePipe[T]("Pipe")
	if err != nil {
		return nil, nil, err
	}
	return &Conn[T]{a}, &Conn[T]{b}, nil
}

// PipeOneWay makes a one-way pipe. In all other respects it is like Pipe.
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
	one, two, err := pipe.Make(proc.objects)
	if err != nil {
		return nil, nil, err
	}
	return newPipeEnd(proc, one), newPipeEnd(proc, two), nil
}

// Send sends a value to the other end and returns when the value has left this
// process. It blocks while about a megabyte, or 256 values, have not been
// received yet. The error is ErrClosed when either end is gone, ctx.Err(), or
// an *EncodeError. When ctx ends, the value was not sent, unless the error is
// ErrUnknownOutcome, too: a part of it had left, or it refers to objects and the
// process that made the pipe has not answered within a second.
func (c *Conn[T]) Send(ctx context.Context, v T) error { return sendPipe(ctx, c.pipeEnd(), v) }

// Recv waits for a value from the other end. The error is io.EOF when the other
// end is gone and nothing is left, ErrClosed when this end is gone, a
// *MismatchError for a value that is not a T, or ctx.Err().
func (c *Conn[T]) Recv(ctx context.Context) (T, error) { return recvPipe[T](ctx, c.pipeEnd()) }

// TryRecv returns a value from the other end if one has come, and reports whether one
// had. It does not wait, unless this end has just come to this process: then it waits
// until the end is here. The errors are Recv's.
func (c *Conn[T]) TryRecv(ctx context.Context) (T, bool, error) {
	return tryRecvPipe[T](ctx, c.pipeEnd())
}

// Items returns the values from the other end as Recv does, one after another, and
// ends when that is gone and nothing is left. Another error comes last. A loop that is
// left has received the values that it has seen, and no other.
func (c *Conn[T]) Items(ctx context.Context) iter.Seq2[T, error] {
	return until(io.EOF, func() (T, error) { return c.Recv(ctx) })
}

// Close ends the pipe. Items that have arrived here and that no Recv has
// returned are lost; items that were sent from here are not. Closing twice, or
// after the end has moved, is a no-op.
func (c *Conn[T]) Close() error { return c.pipeEnd().close() }

// Send sends a value; see Conn.Send.
func (s *Sender[T]) Send(ctx context.Context, v T) error { return sendPipe(ctx, s.pipeEnd(), v) }

// Close ends the pipe; see Conn.Close.
func (s *Sender[T]) Close() error { return s.pipeEnd().close() }

// Recv waits for a value; see Conn.Recv.
func (r *Receiver[T]) Recv(ctx context.Context) (T, error) { return recvPipe[T](ctx, r.pipeEnd()) }

// TryRecv returns a value if one has come; see Conn.TryRecv.
func (r *Receiver[T]) TryRecv(ctx context.Context) (T, bool, error) {
	return tryRecvPipe[T](ctx, r.pipeEnd())
}

// Items returns the values, one after another; see Conn.Items.
func (r *Receiver[T]) Items(ctx context.Context) iter.Seq2[T, error] {
	return until(io.EOF, func() (T, error) { return r.Recv(ctx) })
}

// Close ends the pipe; see Conn.Close.
func (r *Receiver[T]) Close() error { return r.pipeEnd().close() }

// MarshalBinary encodes a reference to the end, for the process that the end is
// sent to.
func (c *Conn[T]) MarshalBinary() ([]byte, error) { return marshalEnd[T](c.pipeEnd(), bothWays) }

// UnmarshalBinary takes over the end that a reference names.
func (c *Conn[T]) UnmarshalBinary(b []byte) error { return unmarshalEnd[T](b, bothWays, (*holder)(c)) }

// MarshalBinary encodes a reference to the end, for the process that the end is
// sent to.
func (s *Sender[T]) MarshalBinary() ([]byte, error) { return marshalEnd[T](s.pipeEnd(), sends) }

// UnmarshalBinary takes over the end that a reference names.
func (s *Sender[T]) UnmarshalBinary(b []byte) error { return unmarshalEnd[T](b, sends, (*holder)(s)) }

// MarshalBinary encodes a reference to the end, for the process that the end is
// sent to.
func (r *Receiver[T]) MarshalBinary() ([]byte, error) { return marshalEnd[T](r.pipeEnd(), receives) }

// UnmarshalBinary takes over the end that a reference names.
func (r *Receiver[T]) UnmarshalBinary(b []byte) error {
	return unmarshalEnd[T](b, receives, (*holder)(r))
}

func (c *Conn[T]) pipeEnd() *pipeEnd { return (*holder)(c).pipeEnd() }

func (s *Sender[T]) pipeEnd() *pipeEnd { return (*holder)(s).pipeEnd() }

func (r *Receiver[T]) pipeEnd() *pipeEnd { return (*holder)(r).pipeEnd() }

// What an end can do.
const (
	receives = 1 << iota
	sends
	bothWays = receives | sends
)

func sendPipe[T any](ctx context.Context, e *pipeEnd, v T) error {
	switch {
	case e == nil:
		return errEmptyEnd
	case ctx == nil:
		return errNilContext
	}
	item, err := encode(ctx, "the item", v)
	if err != nil {
		return err
	}
	err = e.port.Send(ctx, item)
	runtime.KeepAlive(e)
	runtime.KeepAlive(item) // only now does the pipe hold what it names
	return pipeError(err)
}

func recvPipe[T any](ctx context.Context, e *pipeEnd) (T, error) {
	v, _, err := received[T](ctx, e, func(p *pipe.Port) (object.Value, bool, error) {
		item, err := p.Recv(ctx)
		return item, true, err
	})
	return v, err
}

func tryRecvPipe[T any](ctx context.Context, e *pipeEnd) (T, bool, error) {
	return received[T](ctx, e, func(p *pipe.Port) (object.Value, bool, error) { return p.TryRecv(ctx) })
}

// received returns what receive has received, if anything.
func received[T any](ctx context.Context, e *pipeEnd, receive func(*pipe.Port) (object.Value, bool, error)) (v T, ok bool, err error) {
	switch {
	case e == nil:
		return v, false, errEmptyEnd
	case ctx == nil:
		return v, false, errNilContext
	}
	item, ok, err := receive(e.port)
	runtime.KeepAlive(e)
	if err != nil || !ok {
		return v, false, pipeError(err)
	}
	came, err := unmarshal(item.Frames(), &v)
	if len(item.Refs()) > 0 {
		came.then(ctx, func(context.Context) error { e.port.Took(item); return nil })
	}
	if err != nil {
		return v, false, mismatch("an item of the pipe cannot be decoded as a %v: %v", reflect.TypeFor[T](), err)
	}
	return v, true, nil
}

// marshalEnd encodes a reference to the end, its generation, its direction, and
// the type of its items.
func marshalEnd[T any](e *pipeEnd, sort byte) ([]byte, error) {
	if e == nil {
		return nil, errEmptyEnd
	}
	gen, err := e.port.Generation()
	if err != nil {
		return nil, pipeError(err)
	}
	if gen == 0 {
		return nil, &comingError{e.port}
	}
	b := append(wire.AppendUvarint(e.port.Ref().Append(nil), gen), sort)
	return append(b, typeName(reflect.TypeFor[T]())...), nil
}

func unmarshalEnd[T any](b []byte, sort byte, to *holder) error {
	if to == nil {
		return errEmptyEnd
	}
	var ref object.Ref
	more, err := ref.Read(b)
	r := wire.Reader{B: more}
	gen, mark := r.Uvarint(), r.Bytes(1)
	if err = errors.Join(err, r.Err); err != nil {
		return err
	}
	if mark[0] != sort {
		return &MismatchError{Reason: "the end of the pipe has another type; send a Conn as a Conn, a Receiver as a Receiver, a Sender as a Sender"}
	}
	if want := typeName(reflect.TypeFor[T]()); string(r.B) != want {
		return mismatch("the pipe carries %s, not %s", r.B, want)
	}
	p, err := running()
	if err != nil {
		return err
	}
	to.end = claimEnd(p, endName{ref, gen})
	return nil
}
