package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/job"
)

// relay is the backend of a process whose jobs the root starts: it passes all
// requests up the tree. The jobs still report to this process, which is their
// parent and watches them.
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

// bootstrapOf finds the bootstrap in a job's public environment.
func bootstrapOf(public []string) string {
	for _, kv := range public {
		if text, ok := strings.CutPrefix(kv, bootstrapKey+"="); ok {
			return text
		}
	}
	return ""
}

func (r *relay) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	request := &request{Do: doLaunch, Spec: jobSpec{Name: spec.Name, Env: spec.Env, Bootstrap: bootstrapOf(spec.Public),
		Resources: spec.Resources, Devices: spec.Devices, Avoid: spec.Avoid, NoDevices: spec.Devices != nil && len(spec.Devices) == 0}}
	if deadline, ok := ctx.Deadline(); ok {
		request.Within = max(time.Until(deadline), time.Nanosecond)
	}
	launched, s, err := r.parent.ask(ctx, request)
	if err != nil {
		if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
			return nil, err
		}
		return nil, &backend.LaunchError{Backend: r.Name(), Job: spec.Name, Err: err}
	}
	j := &relayedJob{Life: job.New(), relay: r, id: launched.Job, stream: s}
	j.host.Store(launched.Host)
	go j.watch(spec.Stdout, spec.Stderr)
	return j, nil
}

// relayedJob is a job that the root runs for this process.
type relayedJob struct {
	*job.Life // its Output is empty until the job has ended
	relay     *relay
	id        string
	stream    net.Conn     // when it is closed, the root removes the job
	host      atomic.Value // string
	once      sync.Once
}

func (j *relayedJob) ID() string   { return j.id }
func (j *relayedJob) Host() string { return j.host.Load().(string) }

// hear passes on the events of the job and returns its end, which follows them.
func (j *relayedJob) hear() (reply, error) {
	for {
		a, err := answered(context.Background(), j.stream)
		if err != nil || a.Event.Kind == "" {
			return a, err
		}
		j.host.Store(a.Host)
		if a.Event.Kind != backend.Ended {
			j.Tell(a.Event)
		}
	}
}

// watch waits for the job's end. The root passes its output on. At the end this
// process gets the end of its stderr, for errors, and of its output, for Logs.
func (j *relayedJob) watch(stdout, stderr io.Writer) {
	a, err := j.hear()
	status, failure := a.Status, error(nil)
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) || errors.Is(err, errAvoided) {
		failure = err
	} else if err != nil {
		status = backend.ExitStatus{Code: -1, Reason: err.Error()}
	} else if logs, err := j.open(context.Background(), false); err == nil {
		io.Copy(j.Output, logs)
		logs.Close()
	}
	if stderr != nil {
		stderr.Write(a.Tail)
	}
	for _, w := range []io.Writer{stdout, stderr} {
		if c, ok := w.(io.Closer); ok {
			c.Close()
		}
	}
	j.End(status, failure)
}

// tell asks the root to do something with the job, and waits for the answer.
func (j *relayedJob) tell(ctx context.Context, r *request) error {
	r.Job = j.id
	_, s, err := j.relay.parent.ask(ctx, r)
	s.Close()
	return err
}

func (j *relayedJob) Signal(ctx context.Context, sig backend.Signal) error {
	select {
	case <-j.Done():
		return nil
	default:
	}
	return j.tell(ctx, &request{Do: doSignal, Signal: sig})
}

func (j *relayedJob) Logs(ctx context.Context, opts backend.LogOptions) (io.ReadCloser, error) {
	select {
	case <-j.Done():
		return j.Output.Reader(ctx, opts.Follow), nil
	default:
		return j.open(ctx, opts.Follow)
	}
}

func (j *relayedJob) open(ctx context.Context, follow bool) (io.ReadCloser, error) {
	_, s, err := j.relay.parent.ask(ctx, &request{Do: doLogs, Job: j.id, Follow: follow})
	if err != nil {
		return nil, err
	}
	return &relayedLogs{ctx: ctx, stream: s}, nil
}

// Remove kills the job and makes the root remove it. The root removes it in any case
// when the job's stream closes.
func (j *relayedJob) Remove(ctx context.Context) error {
	defer j.stream.Close()
	if err := j.Signal(ctx, backend.Kill); err != nil {
		return err
	}
	select {
	case <-j.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	j.once.Do(func() { err = j.tell(ctx, &request{Do: doRemove}) })
	return err
}

// relayedLogs reads a job's output through the tree.
type relayedLogs struct {
	ctx    context.Context
	stream net.Conn
	rest   []byte
	err    error // after rest
}

func (l *relayedLogs) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var a reply
		a, l.err = answered(l.ctx, l.stream)
		if l.rest = a.Data; len(a.Data) == 0 && l.err == nil {
			l.err = io.EOF
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *relayedLogs) Close() error { return l.stream.Close() }
