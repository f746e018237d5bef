package kubernetes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/joined"
	"github.com/fiber-go/fiber/internal/kube"
)

// errEnded ends the reading of an output of which nothing more will come.
var errEnded = errors.New("the output has ended")

// readOutput reads the job's output until its program's init says how it
// ended, or there is no more. What nobody takes yet does not hold it up.
func (j *job) readOutput() (end joined.End, said bool) {
	var writing atomic.Int32
	apart := &joined.Reader{Stdout: stream{j.Output, j.stdout, &writing}, Stderr: stream{j.Output, j.stderr, &writing}}
	ctx, cancel := context.WithCancel(context.Background())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer closeAll(j.stdout, j.stderr)
		defer apart.Close()
		defer cancel()
		out := &kube.Output{Client: j.cluster.Client, Pod: j.pod, To: untilEnd{apart}}
		out.Follow(ctx, j.stopped)
	}()
	select {
	case <-read:
		return apart.Ended()
	case <-j.stopped:
	}
	late := time.NewTimer(outputGrace)
	defer late.Stop()
	select {
	case <-read:
	case <-late.C:
		if writing.Load() > 0 {
			return joined.End{}, false // the rest follows when somebody takes it
		}
		cancel()
		<-read
	}
	return apart.Ended()
}

// untilEnd takes a log until the program's init has said how it ended.
type untilEnd struct{ *joined.Reader }

func (u untilEnd) Write(p []byte) (int, error) {
	u.Reader.Write(p)
	if _, ended := u.Ended(); ended {
		return len(p), errEnded
	}
	return len(p), nil
}
