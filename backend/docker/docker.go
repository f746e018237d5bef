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
	"time"

	"github.com/containerd/errdefs"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/names"
)

const (
	// engineTimeout bounds what the engine does for one container, except for
	// pulling its image.
	engineTimeout = time.Minute
	// answerTimeout bounds the wait for an engine that may not exist. On a busy
	// machine one that does exist has needed more than 5 s.
	answerTimeout = 30 * time.Second
	// sweepTimeout bounds the search for what killed runs have left.
	sweepTimeout = 5 * time.Second
	// removalPause is the pause before Close looks again whether all containers have been removed.
	removalPause = 20 * time.Millisecond
	// maxTries is how often a container is made whose image is removed meanwhile.
	maxTries = 3
)

// Backend starts containers. It does not talk to an engine before its first use.
type Backend struct {
	cfg     config.Config
	session string // in a label of everything that the backend makes

	engine   lock.Once[engine]
	swept    lock.Once[struct{}]
	starting chan struct{} // holds one element for each container that is being started
	images   image.Cache[prepared]
	launches lives.Launches
}

// New returns the backend. What cfg does not set has its default.
func New(cfg config.Config) *Backend {
	return &Backend{cfg: cfg.WithDefaults(), session: rand.Text()}
}

func init() {
	backend.Register(backend.Plugin{Name: "docker",
		Make: func(o backend.Options) (backend.Backend, error) { return New(config.Of(o.Setting)), nil }})
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

// missingPath returns the path that does not exist on the engine's machine, if that is its error, or else "".
func missingPath(err error) string {
	_, path, _ := strings.Cut(fmt.Sprint(err), "bind source path does not exist: ")
	return path
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
		// The image has been removed, most likely for another build of the program.
		if err := b.images.Forget(ctx); err != nil {
			return nil, err
		}
	}
}

// start makes a container and starts it. After an error no container is left; after the end of ctx, one that the engine has
// begun to make is removed in the background.
func (b *Backend) start(ctx context.Context, e *engine, img prepared, spec backend.JobSpec) (*job, error) {
	select {
	case b.starting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	j := &job{engine: e, name: spec.Name, memory: spec.Resources.Memory, Life: lives.New()}
	// An engine that has begun to make a container finishes even if the request is cancelled.
	engaged := context.WithoutCancel(ctx)
	err := b.launches.Do(ctx, func() error {
		defer func() { <-b.starting }()
		within, cancel := context.WithTimeout(engaged, engineTimeout)
		defer cancel()
		program, host := b.container(e, img, spec)
		made, err := e.ContainerCreate(within, program, host, nil, nil, names.Unique(spec.Name, 10))
		if dir := spec.Directory; dir != "" && missingPath(err) == dir { // the engine sees other directories
			host.Mounts = host.Mounts[:len(host.Mounts)-1]
			made, err = e.ContainerCreate(within, program, host, nil, nil, names.Unique(spec.Name, 10))
		}
		if path := missingPath(err); path != "" {
			return lives.Refuse(fmt.Errorf("FIBER_DOCKER_VOLUMES names %s, which the engine's machine does not have: make it there first", path))
		}
		if err != nil {
			return err
		}
		if j.id = made.ID; ctx.Err() != nil {
			return ctx.Err()
		}
		return j.begin(within, img)
	}, func() {
		within, cancel := context.WithTimeout(engaged, engineTimeout)
		defer cancel()
		j.undo(within)
	})
	if err != nil {
		return nil, err
	}
	go j.run(spec.Stdout, spec.Stderr)
	return j, nil
}

// Close kills the backend's containers that still run, and waits until all are
// removed, or ctx ends.
func (b *Backend) Close(ctx context.Context) error {
	e := b.engine.Made()
	if e == nil {
		return nil
	}
	defer e.Close()
	own := func(labels map[string]string) bool { return labels[labelSession] == b.session }
	for waited := false; ; {
		left, err := e.removeAll(ctx, own)
		switch {
		case err != nil:
			return err
		case !waited: // containers that are still being made come after those
			if err := b.launches.Wait(ctx); err != nil {
				return err
			}
			waited = true
		case left == 0:
			return nil
		default:
			time.Sleep(removalPause)
		}
	}
}
