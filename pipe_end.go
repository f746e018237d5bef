package fiber

import (
	"errors"
	"io"
	"runtime"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/pipe"
)

var errEmptyEnd = errEmpty("pipe end")

// pipeEnd is an end of a pipe in this process. When nobody can use it any more
// it is closed, unless it is on its way to somebody.
type pipeEnd struct {
	proc *process
	port *pipe.Port
}

func newPipeEnd(proc *process, port *pipe.Port) *pipeEnd {
	e := &pipeEnd{proc, port}
	runtime.AddCleanup(e, func(port *pipe.Port) { port.Leave() }, port)
	return e
}

func (e *pipeEnd) close() error {
	if e == nil {
		return errEmptyEnd
	}
	e.port.Close()
	return nil
}

// departing is ends of pipes that are about to be sent.
type departing []*pipeEnd

// depart has all ends on their way, or none.
func (d departing) depart() error {
	for i, e := range d {
		if _, err := e.port.Depart(); err != nil {
			d[:i].stay()
			return pipeError(err)
		}
	}
	return nil
}

// stay takes depart back.
func (d departing) stay() {
	for _, e := range d {
		e.port.Stay()
	}
}

// gone ends the use of the ends here; they are closed when the process that
// was to have them ends without having taken them.
func (d departing) gone(ended <-chan struct{}) {
	for _, e := range d {
		e.port.LeaveTo(ended)
	}
}

// pipeError is an error of a port as a user sees it.
func pipeError(err error) error {
	var lost *object.LostError
	switch {
	case err == nil, err == io.EOF:
		return err
	case errors.Is(err, pipe.ErrGone), errors.Is(err, pipe.ErrEnded):
		return errorf("%w: %w", err, ErrClosed)
	case errors.As(err, &lost):
		return errorf("%w: %w", pipe.ErrEnded, ErrClosed)
	}
	return objectError("the pipe", err)
}
