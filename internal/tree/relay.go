package tree

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/wire"
)

// relay is the backend of a process whose jobs the root starts: it asks for them
// up the tree. The jobs still report to this process, which is their parent and
// watches them.
type relay struct{ parent *Parent }

// Relay returns this process's backend if the root starts its jobs, and nil if
// the process starts them itself.
func (p *Parent) Relay() backend.Backend {
	if p.Assign.Backend == "" {
		return nil
	}
	return &relay{p}
}

// Name is the name of the root's backend.
func (r *relay) Name() string { return r.parent.Assign.Backend }

// Network returns the address by which this process reaches its parent: the other
// processes are on the same network.
func (r *relay) Network(context.Context) (backend.Network, error) {
	host, _, err := net.SplitHostPort(r.parent.conn.LocalAddr().String())
	if err != nil {
		return backend.Network{}, fmt.Errorf("fiber: this process's own address: %w", err)
	}
	return backend.Network{Host: host, Bind: host}, nil
}

// Launch asks the root for a job. Start names the job in its errors.
func (r *relay) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	launched, s, err := r.parent.ask(ctx, &request{Do: doLaunch, Spec: jobSpec{Name: spec.Name, Env: spec.Env,
		Bootstrap: strings.TrimPrefix(spec.Public[0], bootstrapKey+"="), // all that is public
		Resources: spec.Resources, Devices: spec.Devices, Avoid: spec.Avoid}})
	if err != nil {
		return nil, err
	}
	j := &relayedJob{Life: lives.New(), id: launched.Job, stream: s}
	j.progress.Store(launched.Progress)
	go j.watch(spec.Stdout.(io.WriteCloser), spec.Stderr.(io.WriteCloser))
	return j, nil
}

// relayedJob is a job that the root runs for this process.
type relayedJob struct {
	*lives.Life
	id       string
	stream   net.Conn // when it is closed, the root removes the job
	progress atomic.Pointer[progress]
}

func (j *relayedJob) ID() string   { return j.id }
func (j *relayedJob) Host() string { return j.progress.Load().Host }

func (j *relayedJob) Pending() (reason string, pending bool) {
	p := j.progress.Load()
	return p.Reason, p.Pending
}

// watch follows the job to its end. The root passes its output on. This process
// gets the output for Logs, and at the end the last of stderr, for errors.
func (j *relayedJob) watch(stdout, stderr io.WriteCloser) {
	var a reply
	var err error
	for err == nil && !a.Ended {
		a, err = answered(context.Background(), j.stream)
		switch {
		case a.Data != nil:
			j.Output.Write(a.Data)
		case a.Progress != nil:
			j.progress.Store(a.Progress)
		}
	}
	io.WriteString(stderr, a.Tail)
	stdout.Close()
	stderr.Close()
	j.End(a.Status, err)
}

// Signal returns when the signal is on its way. The root logs an error of the
// engine's. Of ctx it heeds the deadline.
func (j *relayedJob) Signal(ctx context.Context, sig backend.Signal) error {
	deadline, _ := ctx.Deadline()
	j.stream.SetWriteDeadline(deadline)
	err := wire.Write(j.stream, sig)
	select {
	case <-j.Done():
		return nil
	default:
		return err
	}
}

// Remove kills the job. The root removes it when its stream closes.
func (j *relayedJob) Remove(ctx context.Context) error {
	defer j.stream.Close()
	return j.Finish(ctx, func() error { return j.Signal(ctx, backend.Kill) })
}
