package tree

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/backend"
)

// engineGrace bounds the wait for an engine, which may have much to do: for its answers, and for
// the end of a process that was killed, or whose job has ended.
const engineGrace = 20 * time.Second

// ownGrace bounds the wait for the end of a process that this one runs itself.
const ownGrace = 5 * time.Second

// childJob is the job of a child: how it is ended, and how it has ended.
type childJob struct {
	job      *job
	onEngine bool // an engine runs it, and not this process itself

	ended   chan struct{}      // closed when the job has ended, or has failed to start
	status  backend.ExitStatus // how it ended
	failure error              // why it failed to start
	reaped  chan struct{}      // closed after ended, or when this process has given up the wait for it
	signals sync.WaitGroup     // on their way to an engine; none begins once reaped is closed

	expected atomic.Bool // its end: it has returned, said goodbye, or was told or made to end
	mu       sync.Mutex
	killed   bool
	reason   string // why this process killed it, "" if it did not
}

// wait waits for the job's end.
func (j *childJob) wait() {
	j.status, j.failure = j.job.Wait(context.Background())
	if j.failure != nil { // it may be up all the same: an engine learns late of a start
		j.status = backend.ExitStatus{Code: -1, Reason: j.failure.Error()}
	}
	close(j.ended)
}

// grace is how long the job may live on after its connection has ended, or after it was killed.
func (j *childJob) grace() time.Duration {
	if j.onEngine {
		return engineGrace
	}
	return ownGrace
}

// signal makes the backend signal the job. It does not wait for an engine, since
// the caller may hold up others.
func (j *childJob) signal(sig backend.Signal) error {
	if !j.onEngine {
		return j.job.Signal(context.Background(), sig)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.reaped:
	default:
		j.signals.Go(func() { j.job.signal(sig) })
	}
	return nil
}
