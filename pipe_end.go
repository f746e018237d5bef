package fiber

import (
	"context"
	"errors"
	"io"

	"github.com/fiber-go/fiber/internal/garbage"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/pipe"
)

var errEmptyEnd = errEmpty("pipe end")

// pipeEnd is an end of a pipe in this process. When it becomes unreachable, it
// is closed, unless it is on its way to another process.
type pipeEnd struct {
	proc *process
	port *pipe.Port
	name endName // with which it came here
}

// endName names an end on its way from one process to another.
type endName struct {
	ref object.Ref
	gen uint64
}

// claimEnd makes an end that has come here this process's. If it is in a value
// several times, all are one.
func claimEnd(proc *process, name endName) *pipeEnd {
	return proc.ends.get(name, func() *pipeEnd {
		e := newPipeEnd(proc, pipe.Claim(proc.objects, name.ref, name.gen))
		e.name = name
		return e
	})
}

// holder is a Conn, Sender or Receiver without its type.
type holder struct{ end *pipeEnd }

// pipeEnd returns the end, nil if there is none.
func (h *holder) pipeEnd() *pipeEnd {
	if h == nil {
		return nil
	}
	return h.end
}

func newPipeEnd(proc *process, port *pipe.Port) *pipeEnd {
	e := &pipeEnd{proc: proc, port: port}
	garbage.Then(e, (*pipe.Port).Leave, port)
	return e
}

func (e *pipeEnd) close() error {
	if e == nil {
		return errEmptyEnd
	}
	e.port.Close()
	return nil
}

// departing holds ends of pipes that are about to be sent.
type departing []*pipeEnd

// depart marks the ends as about to be sent.
func (d departing) depart() error {
	for _, e := range d {
		if err := e.port.Depart(); err != nil {
			return pipeError(err)
		}
	}
	return nil
}

// gone ends the use of the ends here. If the process that they were sent to
// ends without having taken them, they are closed.
func (d departing) gone(ended <-chan struct{}) {
	for _, e := range d {
		e.port.LeaveTo(ended)
	}
}

// comingError says that an end of a pipe cannot be encoded yet: it is still on its
// way from its last owner. See marshalHere.
type comingError struct{ port *pipe.Port }

func (*comingError) Error() string {
	return "fiber: the end of the pipe is still on its way here; use it before you send it on"
}

// pipeError turns an error of a port into the user's.
func pipeError(err error) error {
	var lost *object.LostError
	switch {
	case err == nil, err == io.EOF:
		return err
	case errors.Is(err, pipe.ErrGone), errors.Is(err, pipe.ErrEnded):
		return &prefixed{err.Error(), ErrClosed}
	case errors.As(err, &lost):
		return &prefixed{pipe.ErrEnded.Error(), ErrClosed}
	}
	return errorOf(context.Background(), "the pipe", err)
}
