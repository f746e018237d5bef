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
	"io"
	"os"
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

// Name is "local".
func (*Backend) Name() string { return "local" }

// Network reports that children inherit a connected socket.
func (*Backend) Network(context.Context) (backend.Network, error) {
	return backend.Network{Inherit: true}, nil
}

// Launch starts the process, and does not wait for anything it does.
func (b *Backend) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	fail := func(reason string, err error) (backend.Job, error) {
		return nil, &backend.LaunchError{Backend: b.Name(), Job: spec.Name, Reason: reason, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fail("", err)
	}
	j := &job{name: spec.Name, Life: lives.New()}
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return fail("opening an empty stdin", err)
	}
	defer stdin.Close()
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return fail("making a pipe for its output", err)
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		outRead.Close()
		outWrite.Close()
		return fail("making a pipe for its output", err)
	}
	defer outWrite.Close()
	defer errWrite.Close()

	attr := &os.ProcAttr{Files: []*os.File{stdin, outWrite, errWrite}}
	if f, ok := spec.Socket.(*os.File); ok && f != nil {
		attr.Files = append(attr.Files, f)
	}
	set := map[string]string{}
	if attr.Files, err = warden.Inherit(attr.Files, set); err != nil {
		outRead.Close()
		errRead.Close()
		return fail("", err)
	}
	attr.Env = backend.With(environment(spec), set)
	path, argv0 := selfPath(), spec.Name // the name that ps shows
	if spec.Executable != "" {           // another program may depend on its own name
		path, argv0 = spec.Executable, spec.Executable
	}
	j.process, err = start(path, append([]string{argv0}, spec.Args...), attr)
	if err != nil {
		outRead.Close()
		errRead.Close()
		return fail("", err)
	}
	j.host, _ = os.Hostname()
	j.Tell(backend.Event{Kind: backend.Started})
	stdout := &pump{from: outRead, to: discard(spec.Stdout), log: j.Output}
	stderr := &pump{from: errRead, to: discard(spec.Stderr), log: j.Output}
	j.output.Go(stdout.run)
	j.output.Go(stderr.run)
	go j.reap(stdout, stderr)
	if spec.Resources.Memory > 0 {
		go j.watchMemory(spec.Resources.Memory)
	}
	return j, nil
}

// environment returns the job's environment, with its resources.
func environment(spec backend.JobSpec) []string {
	set := backend.Limits(spec.Resources)
	if spec.Devices != nil {
		set["CUDA_VISIBLE_DEVICES"] = strings.Join(spec.Devices, ",")
	}
	return backend.With(slices.Concat(spec.Env, spec.Public), set)
}

func discard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
