package kubernetes

import (
	"context"
	"errors"

	"github.com/fiber-go/fiber/internal/container/logmux"
	"github.com/fiber-go/fiber/internal/kube"
)

// errEnded stops the reading of an output that is complete.
var errEnded = errors.New("the output has ended")

// read waits for the job's start and reads its output, until the init reports
// how its program ended or there is no more.
func (j *job) read(ctx context.Context, apart *logmux.Reader) {
	select {
	case <-j.started:
	case <-j.stopped:
	}
	select {
	case <-j.started:
		out := &kube.Output{Client: j.cluster.Client, Pod: j.pod, To: untilEnd{apart}}
		out.Follow(ctx, j.stopped)
	default:
	}
}

// untilEnd takes a log until the init has reported how its program ended.
type untilEnd struct{ *logmux.Reader }

func (u untilEnd) Write(p []byte) (int, error) {
	u.Reader.Write(p)
	if _, ended := u.Ended(); ended {
		return len(p), errEnded
	}
	return len(p), nil
}
