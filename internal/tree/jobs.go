package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
)

// If an engine runs the jobs, only the root talks to it. Another process that
// wants a job opens a stream up the tree: backend.go asks, and this file serves. A
// job lives no longer than the stream by which it was launched.
//
// A process that asks may be in an attacker's hands. It chooses its children's
// names, the resources that they need, the machines that they avoid, and their
// environment, except for the variables that a backend leaves out since they mean
// something outside the container. The root decides all else: the executable, the
// arguments, the run, the parent, and which GPUs are lent to which process. A
// process reaches only the jobs that it, or a process below it, has asked for.

// jobs are the jobs that the root runs for the processes below it.
type jobs struct {
	mu   sync.Mutex
	byID map[string]*lower
}

// lower is a job that a process below the root has asked for.
type lower struct {
	backend.Job
	owner string   // the place of the process that asked for it
	avoid []string // the machines that the job was to avoid
	tail  tail
}

// find returns the job that a request is about, nil when the process that asks has no such job.
func (j *jobs) find(r *request) *lower {
	j.mu.Lock()
	defer j.mu.Unlock()
	if found := j.byID[r.Job]; found != nil && within(found.owner, r.From) {
		return found
	}
	return nil
}

// within says whether a place is the other one, or below it.
func within(place, other string) bool {
	return place == other || strings.HasPrefix(place, other+"/")
}

// runJob runs a job for the process that asks, tells it what happens to the job, and
// removes the job when that process, or one on the way, closes the stream.
func (n *Node) runJob(s net.Conn, r *request) {
	ctx := whileOpen(s)
	j, err := n.launchLower(ctx, r)
	if err != nil {
		refuse(s, err)
		return
	}
	defer func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.Background(), engineGrace)
		defer cancel()
		if err := n.jobs.remove(limit, j); err != nil {
			n.Log.Warn("fiber: a job was not removed", "id", j.ID(), "error", err)
		}
	}()
	wire.Write(s, reply{Job: j.ID(), Host: j.Host()})
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for on, starting := true, true; on; {
		select {
		case e, more := <-j.Events():
			if on = more; more {
				starting = starting && e.Kind != backend.Started
				wire.Write(s, reply{Event: e, Host: j.Host()})
			}
		case <-again.C: // as heed does for this process's own jobs
			if host := j.Host(); starting && n.fails(host) && !slices.Contains(j.avoid, host) {
				refuse(s, errAvoided)
				return
			}
		case <-ctx.Done():
			return
		}
	}
	status, err := j.Wait(ctx)
	if err != nil {
		refuse(s, err)
		return
	}
	wire.Write(s, reply{Status: status, Tail: j.tail.bytes()})
}

// launchLower starts a job for the process that asks.
func (n *Node) launchLower(ctx context.Context, r *request) (*lower, error) {
	if r.Within > 0 {
		within, cancel := context.WithTimeout(ctx, r.Within)
		defer cancel()
		ctx = within
	}
	s := r.Spec
	if err := n.allows(s); err != nil {
		return nil, err
	}
	j := &lower{owner: r.From, avoid: slices.Compact(slices.Sorted(slices.Values(append(n.Avoided(), s.Avoid...))))}
	name := printable(s.Name)
	stdout, stderr := n.outputs(name, &j.tail)
	spec := backend.JobSpec{Name: name, Run: n.Run, Parent: printable(r.Name), Executable: n.Config.Executable, Args: os.Args[1:],
		Env: s.Env, Public: []string{bootstrapKey + "=" + s.Bootstrap}, Resources: s.Resources, Devices: s.Devices,
		Avoid: j.avoid, Stdout: stdout, Stderr: stderr}
	if s.NoDevices {
		spec.Devices = []string{}
	}
	job, err := n.Backend.Launch(ctx, spec)
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	j.Job = job
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	if n.jobs.byID == nil {
		n.jobs.byID = map[string]*lower{}
	}
	n.jobs.byID[job.ID()] = j
	return j, nil
}

// allows returns an error if a process below may not have such a job.
func (n *Node) allows(s jobSpec) error {
	r := s.Resources
	if !(r.CPU >= 0) || math.IsInf(r.CPU, 1) || r.Memory < 0 || r.GPU < 0 {
		return fmt.Errorf("%w: a job that needs %v", wire.ErrMalformed, r)
	}
	if n.gpus != nil && len(n.gpus.all) > 0 && len(s.Devices) != r.GPU {
		return fmt.Errorf("%w: a job that needs %d GPUs, with %d that are lent to it", wire.ErrMalformed, r.GPU, len(s.Devices))
	}
	return nil
}

// remove removes a job unless it has been removed already.
func (j *jobs) remove(ctx context.Context, job *lower) error {
	j.mu.Lock()
	there := j.byID[job.ID()] == job
	j.mu.Unlock()
	if !there {
		return nil
	}
	err := job.Remove(ctx)
	if err == nil {
		j.mu.Lock()
		delete(j.byID, job.ID())
		j.mu.Unlock()
	}
	return err
}

// serveJob serves a request about a job: a signal, its logs, or its removal.
func (n *Node) serveJob(s net.Conn, r *request) {
	ctx := whileOpen(s)
	j, err := n.jobs.find(r), error(nil)
	switch {
	case j == nil && r.Do == doRemove: // the job has been removed already
	case j == nil:
		err = fmt.Errorf("fiber: there is no job %s", r.Job)
	case r.Do == doSignal:
		err = j.Signal(ctx, r.Signal)
	case r.Do == doLogs:
		err = j.send(ctx, s, r.Follow)
	case r.Do == doRemove:
		err = n.jobs.remove(ctx, j)
	default:
		err = fmt.Errorf("%w: an unknown request %q about a job", wire.ErrMalformed, r.Do)
	}
	if err != nil {
		refuse(s, err)
		return
	}
	wire.Write(s, reply{})
}

// logsChunk is how much of a job's output goes into one answer.
const logsChunk = 16 << 10

// send answers that the job exists, and sends its output.
func (j *lower) send(ctx context.Context, s net.Conn, follow bool) error {
	logs, err := j.Logs(ctx, backend.LogOptions{Follow: follow})
	if err != nil {
		return err
	}
	wire.Write(s, reply{})
	// The process that asks may go while there is nothing to read.
	stop := context.AfterFunc(ctx, func() { logs.Close() })
	defer func() {
		if stop() {
			logs.Close()
		}
	}()
	for buf := make([]byte, logsChunk); ; {
		n, err := logs.Read(buf)
		if n > 0 {
			err = errors.Join(wire.Write(s, reply{Data: buf[:n]}), err)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
