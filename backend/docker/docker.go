// Package docker runs Fiber's jobs as containers of a docker engine.
//
// A container runs an image made from the executable, or one that the user
// names. CPU and memory become limits of the engine, GPUs its device requests.
// The engine removes a container when it ends; what is left of a run whose root
// was killed is removed by the next run.
package docker

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/names"
)

const (
	// engineTimeout bounds what the engine does for one container, except for
	// pulling its image.
	engineTimeout = time.Minute
	// answerTimeout bounds the wait for an engine that may not exist.
	answerTimeout = 5 * time.Second
	// removalPause is the pause before Close looks again whether all containers have been removed.
	removalPause = 20 * time.Millisecond
	// maxTries is how often a container is made whose image is removed meanwhile.
	maxTries = 3
)

// Backend starts containers. It does not talk to an engine before its first use.
type Backend struct {
	cfg     config.Config
	session string // in a label of everything that the backend makes

	connecting sync.Mutex // held while the engine is looked for
	engine     *engine
	starting   chan struct{} // holds one element for each container that is being started
	images     image.Once[prepared]
}

// New returns the backend. What cfg does not set has its default.
func New(cfg config.Config) *Backend {
	return &Backend{cfg: cfg.WithDefaults(), session: rand.Text()}
}

// Name is "docker".
func (*Backend) Name() string { return "docker" }

// failure returns the error of a launch.
func (b *Backend) failure(job string, err error) error {
	return lives.Failure(b, job, err, errdefs.IsInvalidArgument(err) || errdefs.IsNotFound(err) ||
		errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) || noDevice(err))
}

// noDevice reports whether the engine says that it has no GPUs.
func noDevice(err error) bool { return strings.Contains(err.Error(), "could not select device driver") }

// noPath explains the engine's error that a path does not exist on its host.
func noPath(err error) error {
	if _, path, missing := strings.Cut(err.Error(), "bind source path does not exist: "); missing {
		return lives.Refuse(fmt.Errorf("FIBER_DOCKER_VOLUMES names %s, which the engine's machine does not have: make it there first", path))
	}
	return err
}

// Launch starts a container. It blocks while the image is made or pulled.
func (b *Backend) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	j, err := b.launch(ctx, spec)
	if err != nil {
		return nil, b.failure(spec.Name, err)
	}
	return j, nil
}

func (b *Backend) launch(ctx context.Context, spec backend.JobSpec) (*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.has(spec.Resources); err != nil {
		return nil, err
	}
	for tries := 1; ; tries++ {
		img, err := b.image(ctx, e, spec.Executable)
		if err != nil {
			return nil, err
		}
		j, err := b.start(ctx, e, img, spec)
		if !errdefs.IsNotFound(err) || ctx.Err() != nil || tries == maxTries {
			return j, err
		}
		b.images.Forget() // somebody has removed the image: another build of the program, most likely
	}
}

// start makes a container and starts it. After an error no container is left.
func (b *Backend) start(ctx context.Context, e *engine, img prepared, spec backend.JobSpec) (*job, error) {
	select {
	case b.starting <- struct{}{}:
		defer func() { <-b.starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	program, host := b.container(e, img, spec)
	// An engine that has begun to make a container finishes even if the
	// request is cancelled. So the container is waited for, and removed.
	engaged, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	made, err := e.ContainerCreate(engaged, program, host, nil, nil, names.Unique(spec.Name, 10))
	if err != nil {
		return nil, noPath(err)
	}
	j := &job{engine: e, name: spec.Name, id: made.ID, memory: spec.Resources.Memory, Life: lives.New()}
	if err := b.begin(ctx, engaged, j, img, spec); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
		defer cancel()
		e.remove(undo, made.ID)
		return nil, err
	}
	return j, nil
}

// begin starts a container that was made, and all that watches it.
func (b *Backend) begin(ctx, engaged context.Context, j *job, img prepared, spec backend.JobSpec) error {
	if img.program != "" {
		archive := image.Archive(img.program)
		defer archive.Close()
		if err := j.engine.CopyToContainer(engaged, j.id, "/", archive, container.CopyToContainerOptions{}); err != nil {
			return err
		}
	}
	streams, err := j.engine.ContainerAttach(engaged, j.id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	if err := j.wait(engaged); err != nil {
		streams.Close()
		return err
	}
	if err = j.engine.ContainerStart(engaged, j.id, container.StartOptions{}); err != nil {
		err = fmt.Errorf("image %s: %w", img.name, err)
	} else {
		err = ctx.Err()
	}
	if err != nil {
		streams.Close()
		j.forget()
		return err
	}
	go j.run(streams, spec.Stdout, spec.Stderr)
	return nil
}

// Close kills the backend's containers that still run, and waits until all are
// removed.
func (b *Backend) Close(ctx context.Context) error {
	b.connecting.Lock()
	e := b.engine
	b.connecting.Unlock()
	if e == nil {
		return nil
	}
	defer e.Close()
	for {
		left, err := e.removeAll(ctx, func(labels map[string]string) bool { return labels[labelSession] == b.session })
		if err != nil || left == 0 {
			return err
		}
		time.Sleep(removalPause)
	}
}
