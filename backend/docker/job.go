package docker

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/container/logmux"
)

// outputGrace bounds the wait for the output of a container that has ended.
const outputGrace = 2 * time.Second

// job is a container.
type job struct {
	*lives.Life
	backend *Backend
	engine  *engine
	name    string
	id      string
	memory  int // MiB, 0 for no limit

	died chan struct{} // closed when the engine reports its end
	gone chan struct{} // closed when the engine has removed it
	oom  chan struct{} // closed when the engine reports that it used too much memory, which is before gone is closed or never

	mu     sync.Mutex
	code   int // set before died is closed
	reason string
	killed bool // by Signal
}

// idShown is how much of a container's id is shown, as docker itself does.
const idShown = 12

func (j *job) ID() string   { return j.id[:min(len(j.id), idShown)] }
func (j *job) Host() string { return j.engine.info.Name }

// run passes the output on and reports the container's end.
func (j *job) run(from types.HijackedResponse, stdout, stderr io.Writer) {
	out := j.Pass(stdout, stderr, func(apart *logmux.Reader, errs io.Writer) {
		stdcopy.StdCopy(apart, errs, from.Reader) // the init writes its own errors to stderr
		from.Close()
	})
	<-j.died
	j.End(j.ending(out.End(outputGrace, from.Close)), nil)
}

// ending returns how the container ended. The init has reported how its program
// ended, unless the init was killed itself.
func (j *job) ending(end logmux.End, said bool) backend.ExitStatus {
	j.mu.Lock()
	status := lives.Exited(j.code)
	status.Reason = j.reason
	if j.code < 0 && said { // the engine had removed the container before it could be asked
		status = lives.Exited(end.Code)
	}
	killed := j.killed
	j.mu.Unlock()
	if j.memory > 0 && status.Signal == syscall.SIGKILL && !killed && (end.OutOfMemory || !said && j.ranOut()) {
		return lives.OutOfMemory(j.memory)
	}
	return status
}

// ranOut reports whether the engine says that the container was killed for the
// memory it used. The engine may say so after the container's death, but not
// after its removal, which follows by itself; ranOut waits until then.
func (j *job) ranOut() bool {
	select {
	case <-j.oom:
	case <-j.gone:
	case <-time.After(engineTimeout): // the engine cannot remove the container, or is gone
	}
	select {
	case <-j.oom:
		return true
	default:
		return false
	}
}

// usedTooMuch notes that the system has killed a process in the container for
// the memory it used.
func (j *job) usedTooMuch() {
	j.mu.Lock()
	defer j.mu.Unlock()
	closeOnce(j.oom)
}

// ended notes that the container has ended.
func (j *job) ended(code int, reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.died:
	default:
		j.code, j.reason = code, reason
		close(j.died)
	}
}

// removed notes that the engine has removed the container.
func (j *job) removed() {
	j.ended(-1, "it was removed")
	j.mu.Lock()
	defer j.mu.Unlock()
	closeOnce(j.gone)
}

// closeOnce closes a channel unless it is closed; mu is held.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (j *job) Signal(ctx context.Context, sig backend.Signal) error {
	select {
	case <-j.died:
		return nil
	default:
	}
	name := "SIGTERM"
	if sig == backend.Kill {
		name = "SIGKILL"
		j.mu.Lock()
		j.killed = true
		j.mu.Unlock()
	}
	err := j.engine.ContainerKill(ctx, j.id, name)
	// A paused container takes a signal only when it is resumed. Some engines
	// return an error for that, others do not.
	if (err == nil || errdefs.IsConflict(err)) && j.paused(ctx) {
		j.engine.ContainerUnpause(ctx, j.id)
		err = j.engine.ContainerKill(ctx, j.id, name)
	}
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) { // conflict: the container is not running
		return fmt.Errorf("fiber: signalling %s (container %s): %w", j.name, j.ID(), err)
	}
	return nil
}

func (j *job) paused(ctx context.Context) bool {
	details, err := j.engine.ContainerInspect(ctx, j.id)
	return err == nil && details.State.Paused
}

// Remove kills the container if it runs. The engine removes it after its end;
// Backend.Close waits for that.
func (j *job) Remove(ctx context.Context) error {
	return j.Finish(ctx, func() error {
		err := j.Signal(ctx, backend.Kill)
		if err != nil && j.engine.remove(ctx, j.id) == nil {
			return nil
		}
		return err
	})
}
