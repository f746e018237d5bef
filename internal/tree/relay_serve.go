package tree

import (
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
)

// If an engine runs the jobs, only the root talks to it. Another process that
// wants a job opens a stream up the tree: relay.go asks, and this file serves.
// The stream is the job: what happens to the job, its output and its end come down
// the stream, signals go up, and the job is removed when the stream closes. So a
// process reaches only the jobs that it, or a process below it, has asked for.
//
// A process that asks may be in an attacker's hands. It chooses its children's
// names, the resources that they need, the machines that they avoid, and their
// environment, except for the variables that a backend leaves out since they mean
// something outside the container. The root decides all else: the executable, the
// arguments, the run, the parent, and which GPUs are lent to which process.

// runJob runs a job for the process that asks, until that process, or one on the
// way, closes the stream.
func (n *Node) runJob(s net.Conn, r *request) {
	var j *job
	launched := make(chan struct{})
	ctx, closed := context.WithCancel(context.Background())
	go func() {
		defer closed()
		defer s.Close() // first, so that nothing answers any more; it wakes who writes
		// One of each at a time, however many the process sends.
		underWay := map[backend.Signal]chan struct{}{backend.Terminate: make(chan struct{}, 1), backend.Kill: make(chan struct{}, 1)}
		for sig := backend.Kill; wire.Read(s, &sig) == nil; {
			select {
			case <-launched:
				select {
				case underWay[sig] <- struct{}{}:
					go func() {
						j.signal(sig)
						<-underWay[sig]
					}()
				default: // it is under way, or is no signal
				}
			default: // no Fiber signals a job before it is told that there is one
				return
			}
		}
	}()
	j, err := n.launchLower(ctx, r)
	if err != nil {
		refuse(s, err)
		return
	}
	close(launched)
	defer func() {
		<-ctx.Done()
		j.remove(engineGrace)
	}()
	wire.Write(s, reply{Job: j.ID(), Progress: &progress{Host: j.Host()}})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		j.sendOutput(ctx, s)
	}()
	starting, started := context.WithCancel(ctx)
	defer started()
	err = j.follow(starting, func(p progress) {
		wire.Write(s, reply{Progress: &p})
		if !p.Pending {
			started()
		}
	})
	var status backend.ExitStatus
	if err == nil {
		status, err = j.Wait(ctx)
	}
	if err != nil {
		refuse(s, err)
		return
	}
	<-sent
	wire.Write(s, reply{Ended: true, Status: status, Tail: strings.Join(j.lastLines(), "\n")})
}

// launchLower starts a job for the process that asks.
func (n *Node) launchLower(ctx context.Context, r *request) (*job, error) {
	s := r.Spec
	if err := n.allows(ctx, s); err != nil {
		return nil, err
	}
	return n.launch(ctx, backend.JobSpec{Name: printable(s.Name), Parent: printable(r.Name),
		Env: s.Env, Public: []string{bootstrapKey + "=" + s.Bootstrap}, Resources: s.Resources, Devices: s.Devices,
		Avoid: slices.Compact(slices.Sorted(slices.Values(append(n.Avoided(), s.Avoid...))))})
}

// allows returns an error if a process below may not have such a job.
func (n *Node) allows(ctx context.Context, s jobSpec) error {
	r := s.Resources
	if !(r.CPU >= 0) || math.IsInf(r.CPU, 1) || r.Memory < 0 || r.GPU < 0 {
		return fmt.Errorf("%w: a job that needs %v", wire.ErrMalformed, r)
	}
	g, err := n.devices(ctx)
	if err == nil && g != nil && len(g.all) > 0 && len(s.Devices) != r.GPU {
		err = fmt.Errorf("%w: a job that needs %d GPUs, with %d that are lent to it", wire.ErrMalformed, r.GPU, len(s.Devices))
	}
	return err
}

// outputChunk is how much of a job's output goes into one reply.
const outputChunk = 16 << 10

// sendOutput sends the job's output until it ends, or ctx. What is not read in
// time is left out, as in all logs of jobs.
func (j *job) sendOutput(ctx context.Context, s net.Conn) {
	logs, err := j.Logs(ctx, true)
	if err != nil {
		return
	}
	defer logs.Close()
	for buf := make([]byte, outputChunk); ; {
		n, err := logs.Read(buf)
		if n > 0 && wire.Write(s, reply{Data: buf[:n]}) != nil || err != nil {
			return
		}
	}
}
