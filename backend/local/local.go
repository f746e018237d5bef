// Package local runs Fiber's jobs as processes on this machine: the running
// executable again, with a socket that is already connected to its parent.
//
// CPU becomes GOMAXPROCS; memory becomes GOMEMLIMIT and a limit on resident
// memory; GPUs become CUDA_VISIBLE_DEVICES. A job cannot outlive the process
// that launched it, even if that process is killed while the job is stopped.
// Each job leads a process group, which is killed when the job has ended: by
// the process that launched it or, if that was killed before, by package
// warden.
package local

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/warden"
)

// Backend starts jobs on this machine.
type Backend struct{}

// New returns the backend, which has no settings.
func New() *Backend { return &Backend{} }

func init() {
	backend.Register(backend.Plugin{Name: "local", Make: func(backend.Options) (backend.Backend, error) { return New(), Supported() }})
}

// Name is "local".
func (*Backend) Name() string { return "local" }

// Network reports that children inherit a connected socket.
func (*Backend) Network(context.Context) (backend.Network, error) {
	return backend.Network{Inherit: true}, nil
}

// Launch starts the process, and does not wait for anything it does.
func (b *Backend) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	j, err := launch(ctx, spec)
	if err != nil {
		return nil, lives.Failure(b, spec.Name, err, false)
	}
	return j, nil
}

func launch(ctx context.Context, spec backend.JobSpec) (*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd, err := command(spec)
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	j := &job{name: spec.Name, Life: lives.New(), stdout: stdout, stderr: stderr, memory: spec.Resources.Memory}
	j.host, _ = os.Hostname()
	started := make(chan error)
	go j.run(cmd, spec, started)
	return j, <-started
}

// command returns the command of a job, without its outputs.
func command(spec backend.JobSpec) (*exec.Cmd, error) {
	path, argv0 := selfPath(), spec.Name // the name that ps shows
	if spec.Executable != "" {           // another program may depend on its own name
		path, argv0 = spec.Executable, spec.Executable
	}
	files := make([]*os.File, 3) // stdin, stdout and stderr
	if spec.Socket != nil {
		files = append(files, spec.Socket)
	}
	set := map[string]string{}
	files, err := warden.Inherit(files, set)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: append([]string{argv0}, spec.Args...), Env: backend.With(environment(spec), set),
		ExtraFiles: files[3:], SysProcAttr: attributes()}, nil
}

// environment returns the job's environment, with its resources.
func environment(spec backend.JobSpec) []string {
	set := backend.Limits(spec.Resources)
	if spec.Devices != nil {
		set["CUDA_VISIBLE_DEVICES"] = strings.Join(spec.Devices, ",")
	}
	return backend.With(slices.Concat(spec.Env, spec.Public), set)
}
