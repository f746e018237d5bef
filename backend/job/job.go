// Package job implements what the life of a job has in common on every backend: its output and its end.
package job

import (
	"context"
	"io"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/output"
)

// kept is how many bytes of a job's output are kept for its logs.
const kept = 256 << 10

// Life is the life of a job, from its start to its end. A backend embeds it in its job and adds how the job is signalled
// and removed. Its methods may be called from many goroutines.
type Life struct {
	Output *output.Log // of the job; End closes it

	done   chan struct{} // closed when status and err are final
	status backend.ExitStatus
	err    error
}

// New returns the life of a job that has not ended.
func New() *Life {
	return &Life{Output: output.New(kept), done: make(chan struct{})}
}

// End reports how the job ended. It is called once, after the job's output has been read. An error means that the job could
// not be started.
func (l *Life) End(status backend.ExitStatus, err error) {
	l.status, l.err = status, err
	l.Output.Close()
	close(l.done)
}

// Done is closed at the end.
func (l *Life) Done() <-chan struct{} { return l.done }

// Finish calls kill unless the job has ended, and waits for the end.
func (l *Life) Finish(ctx context.Context, kill func() error) error {
	select {
	case <-l.done:
		return nil
	default:
	}
	if err := kill(); err != nil {
		return err
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wait and Logs implement [backend.Job].
func (l *Life) Wait(ctx context.Context) (backend.ExitStatus, error) {
	select {
	case <-l.done:
		return l.status, l.err
	case <-ctx.Done():
		return backend.ExitStatus{}, ctx.Err()
	}
}

func (l *Life) Logs(ctx context.Context, follow bool) (io.ReadCloser, error) {
	return l.Output.Reader(ctx, follow), nil
}
