package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/owner"
	"github.com/fiber-go/fiber/meta"
)

// engine is a docker engine that has answered.
type engine struct {
	*client.Client
	info     system.Info
	platform image.Platform // of its containers
	local    bool           // on this machine
}

// These bound how many containers an engine is asked to start at once. More
// would not be up sooner, and each would take longer.
const (
	minStarts    = 8
	startsPerCPU = 4
)

// connect finds the engine, and removes what dead runs have left there, once each. A sweep that ctx has ended is none.
func (b *Backend) connect(ctx context.Context) (*engine, error) {
	e, err := b.engine.Make(ctx, func() (*engine, error) {
		e, err := dial(ctx)
		if err == nil {
			b.starting = make(chan struct{}, max(minStarts, startsPerCPU*e.info.NCPU))
		}
		return e, err
	})
	if err == nil {
		err = lock.Do(ctx, &b.swept, e.sweep)
	}
	return e, err
}

// sockets returns where an engine may listen if DOCKER_HOST is not set: the
// system's, Docker Desktop's, a rootless one.
func sockets() []string {
	paths := []string{"/var/run/docker.sock"}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, ".docker/run/docker.sock"))
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "docker.sock"))
	}
	return paths
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func dial(ctx context.Context) (*engine, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	looked := "at DOCKER_HOST=" + os.Getenv("DOCKER_HOST")
	if os.Getenv("DOCKER_HOST") == "" {
		paths := sockets()
		if i := slices.IndexFunc(paths, exists); i >= 0 {
			paths = paths[i : i+1]
			opts = append(opts, client.WithHost("unix://"+paths[0]))
		}
		looked = "at " + strings.Join(paths, ", ") + " (DOCKER_HOST is not set)"
	}
	cli, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, lives.Refuse(fmt.Errorf("the docker engine %s: %w", looked, err))
	}
	within, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	e := &engine{Client: cli}
	var version types.Version
	if e.info, err = cli.Info(within); err == nil {
		version, err = cli.ServerVersion(within)
	}
	if err != nil {
		cli.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, lives.Refuse(fmt.Errorf("no docker engine answers %s: %w%s", looked, plain(err), hint(err)))
	}
	e.platform = image.Platform{OS: version.Os, Arch: version.Arch}
	u, err := url.Parse(cli.DaemonHost())
	e.local = err == nil && (u.Scheme == "unix" || u.Scheme == "tcp" && isLoopback(u.Hostname()))
	return e, nil
}

// Engine finds the engine and returns its version and its platform, as one text.
func Engine(ctx context.Context) (string, error) {
	e, err := dial(ctx)
	if err != nil {
		return "", err
	}
	defer e.Close()
	return e.info.ServerVersion + ", " + e.platform.String(), nil
}

// here reports whether the engine's paths are this process's, too: it is on this machine, and this process is not in a container.
func (e *engine) here() bool {
	name, err := os.Hostname()
	return err == nil && e.local && name == e.info.Name && exists(e.info.DockerRootDir)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// plain removes the client's advice from an error, or returns the system's own
// error if there is one, which says more.
func plain(err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	text, _, _ := strings.Cut(err.Error(), ". Is the docker daemon running?")
	return errors.New(text)
}

func hint(err error) string {
	if errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "permission denied") {
		return "; this user may not use its socket: most engines let the group docker do so"
	}
	return "; start one, or set DOCKER_HOST to where it listens"
}

// has returns an error if the engine's machine has less memory than a job asks
// for. Too many CPUs the engine rejects by itself.
func (e *engine) has(r meta.Resources) error {
	if total := e.info.MemTotal >> 20; r.Memory > 0 && total > 0 && int64(r.Memory) > total {
		return lives.Refuse(fmt.Errorf("meta.Memory(%d) is more than the %d MiB that the machine of the engine has", r.Memory, total))
	}
	return nil
}

// remove removes a container, even if it runs, and its anonymous volumes.
func (e *engine) remove(ctx context.Context, id string) error {
	err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // conflict: it is being removed already
		return nil
	}
	return err
}

// removeAll removes the containers of Fiber's with labels that which accepts, and returns how many there were. Some of them
// may have been being removed already.
func (e *engine) removeAll(ctx context.Context, which func(labels map[string]string) bool) (int, error) {
	all, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelRoot))})
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(c container.Summary) bool { return !which(c.Labels) })
	var removals errgroup.Group
	for _, c := range all {
		removals.Go(func() error { return e.remove(ctx, c.ID) })
	}
	return len(all), removals.Wait()
}

// sweep removes the containers of this user's runs whose root was killed. Running
// containers of such a run end soon by themselves; sweep is for those that cannot,
// such as containers that were never started. Whether a root on another machine is
// gone, or one on this machine before its last reboot, cannot be told: its
// containers stay until a user removes them, and only take space.
func (e *engine) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	e.removeAll(ctx, func(labels map[string]string) bool { return owner.Gone(labels[labelRoot]) })
}
