package docker

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/logmux"
	"github.com/fiber-go/fiber/internal/retry"
)

// outputGrace bounds the wait for the output of a container that has ended.
const outputGrace = 2 * time.Second

const (
	// maxReopenPause is the longest pause before a broken wait is opened again.
	maxReopenPause = time.Second
	// steady is how long a wait lasts at least on an engine that works.
	steady = 5 * time.Second
	// maxSilence bounds the time without a steady wait: an engine may be upgraded while its containers run.
	maxSilence = 5 * time.Minute
)

// job is a container.
type job struct {
	*lives.Life
	engine *engine
	name   string
	id     string
	memory int         // MiB, 0 for no limit
	killed atomic.Bool // by Signal

	output  types.HijackedResponse
	exits   <-chan container.WaitResponse // receives the container's end, unless errs receives an error first
	errs    <-chan error
	waiting context.Context // of the wait
	stop    context.CancelFunc
}

// idShown is how much of a container's id is shown, as docker itself does.
const idShown = 12

func (j *job) ID() string   { return j.id[:min(len(j.id), idShown)] }
func (j *job) Host() string { return j.engine.info.Name }

// begin starts the container, which was made, and opens all that watches it.
func (j *job) begin(ctx context.Context, img prepared) error {
	if img.program != "" {
		archive := image.Archive(img.program)
		defer archive.Close()
		if err := j.engine.CopyToContainer(ctx, j.id, "/", archive, container.CopyToContainerOptions{}); err != nil {
			return err
		}
	}
	var err error
	if j.output, err = j.engine.ContainerAttach(ctx, j.id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true}); err != nil {
		return err
	}
	if err := j.wait(ctx); err != nil {
		return err
	}
	if err := j.engine.ContainerStart(ctx, j.id, container.StartOptions{}); err != nil {
		return fmt.Errorf("image %s: %w", img.name, err)
	}
	return nil
}

// undo removes the container of a launch that has failed or was given up, as far as that has come.
func (j *job) undo(ctx context.Context) {
	if j.output.Conn != nil {
		j.output.Close()
	}
	if j.stop != nil {
		j.forget()
	}
	if j.id != "" {
		j.engine.remove(ctx, j.id)
	}
}

// wait opens a wait for the container's end. It is called before the container starts, so that no end is missed.
func (j *job) wait(ctx context.Context) error {
	j.waiting, j.stop = context.WithCancel(context.Background())
	opened := context.AfterFunc(ctx, j.stop)
	j.exits, j.errs = j.engine.ContainerWait(j.waiting, j.id, container.WaitConditionNextExit)
	opened()
	select {
	case err := <-j.errs:
		j.stop()
		j.stop = nil
		return fmt.Errorf("waiting for the container's end: %w", err)
	default:
		return nil
	}
}

// forget ends the wait of a container that is not wanted.
func (j *job) forget() {
	j.stop()
	select {
	case <-j.exits:
	case <-j.errs:
	}
}

// run passes the output on and reports the container's end.
func (j *job) run(stdout, stderr io.Writer) {
	defer j.stop()
	out := j.Pass(stdout, stderr, func(apart *lives.Apart, errs io.Writer) {
		stdcopy.StdCopy(apart, errs, j.output.Reader) // the init writes its own errors to stderr
		j.output.Close()
	})
	status := j.exit()
	end, said := out.End(outputGrace, j.output.Close)
	j.End(j.ending(status, end, said), nil)
}

// exit blocks until the container has ended, and returns what the engine says about it: the code is -1 if it does not know.
func (j *job) exit() backend.ExitStatus {
	heard, opened := time.Now(), time.Now()
	for again := (retry.Pauses{Longest: maxReopenPause}); ; {
		select {
		case exit := <-j.exits:
			status := lives.Exited(int(exit.StatusCode))
			if exit.Error != nil {
				status.Reason = exit.Error.Message
			}
			return status
		case err := <-j.errs:
			if time.Since(opened) > steady {
				heard = time.Now()
				again.Reset()
			}
			switch {
			case errdefs.IsNotFound(err):
				return backend.ExitStatus{Code: -1, Reason: "it was removed"}
			case time.Since(heard) > maxSilence:
				return backend.ExitStatus{Code: -1, Reason: fmt.Sprintf("the engine no longer answers: %v", err)}
			}
		}
		again.Wait(j.waiting) // the engine was restarted, most likely
		j.exits, j.errs = j.engine.ContainerWait(j.waiting, j.id, container.WaitConditionNotRunning)
		opened = time.Now() // the engine has confirmed the wait, or errs has an error already
	}
}

// ending returns how the container ended. The init has reported how its program ended, unless the init was killed itself.
func (j *job) ending(status backend.ExitStatus, end logmux.End, said bool) backend.ExitStatus {
	if status.Code < 0 && said { // the engine had removed the container before it could be asked
		status = lives.Exited(end.Code)
	}
	if j.memory > 0 && status.Signal == syscall.SIGKILL && !j.killed.Load() {
		if end.OutOfMemory {
			return lives.OutOfMemory(j.memory)
		}
		if !said {
			status.Reason = fmt.Sprintf("it was killed from outside, perhaps because it used more than its %d MiB", j.memory)
		}
	}
	return status
}

func (j *job) Signal(ctx context.Context, sig backend.Signal) error {
	name := "SIGTERM"
	if sig == backend.Kill {
		name = "SIGKILL"
		j.killed.Store(true)
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
