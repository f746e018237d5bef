package kubernetes

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/joined"
)

const (
	// followGrace is how long the output that is followed may lag behind the
	// end of the pod: the node looks only now and then whether it goes on.
	followGrace = 500 * time.Millisecond
	// reopenPause is between two tries to read the output.
	reopenPause = 200 * time.Millisecond
)

// errEnded ends the reading of an output of which nothing more will come.
var errEnded = errors.New("the output has ended")

// readOutput reads the job's output until its program's init says how it
// ended, or there is no more. What nobody takes yet does not hold it up.
func (j *job) readOutput() (code int, said bool) {
	var writing atomic.Int32
	apart := &joined.Reader{Stdout: stream{j.log, j.stdout, &writing}, Stderr: stream{j.log, j.stderr, &writing}}
	r := &reading{job: j, to: apart, read: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	go r.run()
	select {
	case <-r.read:
		return apart.Ended()
	case <-j.stopped:
	}
	late := time.NewTimer(outputGrace)
	defer late.Stop()
	for {
		select {
		case <-r.read:
			return apart.Ended()
		case <-late.C:
			if writing.Load() == 0 {
				r.cancel()
				<-r.read
				return apart.Ended()
			}
			return 0, false // the rest follows when somebody takes it
		}
	}
}

// reading reads a pod's log, again where it breaks off.
type reading struct {
	job    *job
	to     *joined.Reader
	ctx    context.Context
	cancel context.CancelFunc
	got    int64 // bytes
	read   chan struct{}
}

func (r *reading) run() {
	defer close(r.read)
	defer closeAll(r.job.stdout, r.job.stderr)
	defer r.to.Close()
	defer r.cancel()
	for r.ctx.Err() == nil {
		last := false // there will be no more than there is
		select {
		case <-r.job.stopped:
			last = true
		default:
		}
		err := r.open(!last)
		if errors.Is(err, errEnded) || last && (err == nil || r.missing()) {
			return
		}
		select {
		case <-time.After(reopenPause):
		case <-r.ctx.Done():
		}
	}
}

// missing says whether the pod is gone, and its log with it.
func (r *reading) missing() bool {
	r.job.mu.Lock()
	defer r.job.mu.Unlock()
	return r.job.gone
}

// open reads the log to its end, or until the pod has ended for a while.
func (r *reading) open(follow bool) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	if follow {
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-r.job.stopped:
			case <-ended:
				return
			}
			select {
			case <-time.After(followGrace):
				cancel()
			case <-ended:
			}
		}()
	}
	logs, err := r.job.cluster.Follow(ctx, r.job.id, r.job.container, follow)
	if err != nil {
		return err
	}
	defer logs.Close()
	if _, err := io.CopyN(io.Discard, logs, r.got); err != nil { // what was read before
		return err
	}
	_, err = io.Copy(r, logs)
	return err
}

// Write takes a piece of the log.
func (r *reading) Write(p []byte) (int, error) {
	r.got += int64(len(p))
	r.to.Write(p)
	if _, ended := r.to.Ended(); ended {
		return len(p), errEnded
	}
	return len(p), nil
}
