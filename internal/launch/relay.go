package launch

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
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
)

// relay is the backend of a process whose jobs the root starts: it asks up the
// tree for everything. The jobs report to this process all the same, which is
// their parent and watches them.
type relay struct{ parent *Parent }

// Relay is the backend of this process where the root starts its jobs, nil
// where it starts them itself.
func (p *Parent) Relay() backend.Backend {
	if p.Assign.Backend == "" {
		return nil
	}
	return &relay{p}
}

// Name is that of the root's backend.
func (r *relay) Name() string { return r.parent.Assign.Backend }

// Network is the address by which this process reaches its parent: the others
// are where that is.
func (r *relay) Network(context.Context) (backend.Network, error) {
	host, _, err := net.SplitHostPort(r.parent.conn.LocalAddr().String())
	if err != nil {
		return backend.Network{}, fmt.Errorf("fiber: this process's own address: %w", err)
	}
	return backend.Network{Host: host, Bind: host}, nil
}

// ask has something done with a job.
func (r *relay) ask(ctx context.Context, request jobRequest) (jobAnswer, error) {
	var a jobAnswer
	back, err := r.parent.request(ctx, wire.Ask{What: askJob}, request.frames())
	if err != nil {
		return a, err
	}
	if err := codec.Unmarshal(back.value, &a); err != nil {
		return a, fmt.Errorf("%w: what came of a job request: %w", wire.ErrMalformed, err)
	}
	if a.Failure != nil {
		return a, a.Failure.err()
	}
	return a, nil
}

// bootstrapOf is the bootstrap in a job's public environment.
func bootstrapOf(public []string) string {
	for _, kv := range public {
		if text, ok := strings.CutPrefix(kv, bootstrapKey+"="); ok {
			return text
		}
	}
	return ""
}

func (r *relay) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	request := jobRequest{Do: jobLaunch, Spec: jobSpec{Name: spec.Name, Env: spec.Env, Bootstrap: bootstrapOf(spec.Public),
		Resources: spec.Resources, Devices: spec.Devices, Avoid: spec.Avoid, NoDevices: spec.Devices != nil && len(spec.Devices) == 0}}
	if deadline, ok := ctx.Deadline(); ok {
		request.Within = max(time.Until(deadline), time.Nanosecond)
	}
	a, err := r.ask(ctx, request)
	if err != nil {
		if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
			return nil, err
		}
		return nil, &backend.LaunchError{Backend: r.Name(), Job: spec.Name, Err: err}
	}
	j := &relayedJob{Life: job.New(), relay: r, id: a.Launched}
	j.host.Store(a.Host)
	go j.watch(spec.Stdout, spec.Stderr)
	return j, nil
}

// relayedJob is a job that the root runs for this process.
type relayedJob struct {
	*job.Life // its output is complete once it has ended, and empty before
	relay     *relay
	id        string
	host      atomic.Value // string
	once      sync.Once
}

func (j *relayedJob) ID() string   { return j.id }
func (j *relayedJob) Host() string { return j.host.Load().(string) }

// hear passes on the events of the job up to its end. The job does not wait for a reader.
func (j *relayedJob) hear() {
	for {
		a, err := j.relay.ask(context.Background(), jobRequest{Do: jobEvent, Job: j.id})
		if err != nil || a.Event.Kind == "" {
			return
		}
		j.host.Store(a.Host)
		if a.Event.Kind != backend.Ended {
			j.Tell(a.Event)
		}
	}
}

// watch waits for the job's end. The root passes its output on; this process
// gets the end of it, for errors and for Logs.
func (j *relayedJob) watch(stdout, stderr io.Writer) {
	var hearing sync.WaitGroup
	hearing.Go(j.hear)
	a, err := j.relay.ask(context.Background(), jobRequest{Do: jobWait, Job: j.id})
	status, failure := a.Status, error(nil)
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
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
	hearing.Wait()
	j.End(status, failure)
}

func (j *relayedJob) Signal(ctx context.Context, sig backend.Signal) error {
	select {
	case <-j.Done():
		return nil
	default:
	}
	_, err := j.relay.ask(ctx, jobRequest{Do: jobSignal, Job: j.id, Signal: sig})
	return err
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
	a, err := j.relay.ask(ctx, jobRequest{Do: jobLogs, Job: j.id, Follow: follow})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &relayedLogs{job: j, ctx: ctx, cancel: cancel, reader: a.Reader}, nil
}

func (j *relayedJob) Remove(ctx context.Context) error {
	if err := j.Signal(ctx, backend.Kill); err != nil {
		return err
	}
	select {
	case <-j.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	j.once.Do(func() { _, err = j.relay.ask(ctx, jobRequest{Do: jobRemove, Job: j.id}) })
	return err
}

// relayedLogs reads a job's output through the tree.
type relayedLogs struct {
	job    *relayedJob
	ctx    context.Context
	cancel context.CancelFunc
	reader uint64
	rest   []byte
	closed sync.Once
}

func (l *relayedLogs) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		a, err := l.job.relay.ask(l.ctx, jobRequest{Do: jobRead, Job: l.job.id, Reader: l.reader})
		if err != nil {
			return 0, err
		}
		if len(a.Data) == 0 {
			return 0, io.EOF
		}
		l.rest = a.Data
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *relayedLogs) Close() error {
	l.closed.Do(func() {
		l.cancel()
		l.job.relay.ask(context.Background(), jobRequest{Do: jobClose, Job: l.job.id, Reader: l.reader})
	})
	return nil
}
