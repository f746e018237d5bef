// Package job implements what the life of a job has in common on every backend: its events, its output and its end.
package job

import (
	"context"
	"io"
	"sync"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/container/output"
)

// unread is how many events are kept for a reader; then the oldest are dropped.
const unread = 8

// Life is the life of a job, from its start to its end. A backend embeds it in its job and adds how the job is signalled
// and removed. Its methods may be called from many goroutines.
type Life struct {
	Output *output.Log // of the job; End closes it

	events chan backend.Event
	done   chan struct{} // closed when status and err are final
	status backend.ExitStatus
	err    error

	mu   sync.Mutex // held while an event is sent
	over bool       // events is closed
}

// New returns the life of a job that has not ended.
func New() *Life {
	return &Life{Output: output.New(), events: make(chan backend.Event, unread), done: make(chan struct{})}
}

// Tell reports an event of the job. It does not block, and does nothing after the end.
func (l *Life) Tell(e backend.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(e)
}

func (l *Life) tell(e backend.Event) {
	for !l.over {
		select {
		case l.events <- e:
			return
		default:
		}
		select {
		case <-l.events:
		default: // a reader was faster
		}
	}
}

// End reports how the job ended. It is called once, after the job's output has been read. An error means that the job could
// not be started.
func (l *Life) End(status backend.ExitStatus, err error) {
	l.status, l.err = status, err
	l.Output.Close()
	l.mu.Lock()
	l.tell(backend.Event{Kind: backend.Ended, Reason: status.String()})
	l.over = true
	close(l.events)
	l.mu.Unlock()
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

// Events, Wait and Logs implement [backend.Job].
func (l *Life) Events() <-chan backend.Event { return l.events }

func (l *Life) Wait(ctx context.Context) (backend.ExitStatus, error) {
	select {
	case <-l.done:
		return l.status, l.err
	case <-ctx.Done():
		return backend.ExitStatus{}, ctx.Err()
	}
}

func (l *Life) Logs(ctx context.Context, opts backend.LogOptions) (io.ReadCloser, error) {
	return l.Output.Reader(ctx, opts.Follow), nil
}
