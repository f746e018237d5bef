package tree

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

const (
	// bootstrapKey is the environment variable of wire.Bootstrap.
	bootstrapKey = "FIBER_BOOTSTRAP"
	// credentialsKey is the environment variable of its Credentials, in base64.
	credentialsKey = "FIBER_CREDENTIALS"
)

// errAvoided ends a start on a machine that came to be avoided meanwhile.
var errAvoided = errors.New("its machine is avoided by now")

// lookAgain is how often a start checks whether its machine is avoided.
const lookAgain = time.Second

// errNoHello reports a process that has not said hello.
var errNoHello = errors.New("it has not reported")

// Spec describes a process to start.
type Spec struct {
	Name      string
	Resources meta.Resources
	Devices   []string    // GPUs of AcquireGPUs; nil: Start acquires what it needs
	Assign    wire.Assign // Role, Func, Concurrency; the rest is filled in
	Value     [][]byte    // the encoded argument behind it
	Keep      any         // stays reachable until the process has ended
	// Pending, unless nil, is called with what the start waits for, in the
	// backend's words, and with "" when it waits no longer.
	Pending func(reason string)
	// Handle receives the child's messages that are not this package's own, one
	// after another. It must not block.
	Handle func(kind wire.Kind, frames [][]byte)
}

// Start starts a process and returns when it has been sent its work. It blocks
// until then, until ctx ends, or for start_timeout, which does not count the wait
// for GPUs or for other starts. The error is a *backend.LaunchError, a
// *MismatchError, ErrShutdown or the ctx's. After an error nothing is left
// behind, except that a job on a cluster's machine that is at fault may still be
// on its way to removal.
func (n *Node) Start(ctx context.Context, spec Spec) (*Child, error) {
	for {
		c, err := n.start(ctx, spec)
		if !errors.Is(err, errAvoided) {
			return c, err
		}
	}
}

// start is one try. After errAvoided, Start tries again.
func (n *Node) start(ctx context.Context, spec Spec) (*Child, error) {
	serial, err := n.enter()
	if err != nil {
		return nil, err
	}
	defer n.starting.Done()
	c := &Child{node: n, spec: spec, place: n.placeOf(serial), gone: make(chan struct{}), done: make(chan struct{})}
	ctx, stop := n.whileStarting(ctx)
	defer stop()
	release := func() {}
	var devices []string
	if n.Parent != nil && len(n.Parent.Assign.Devices) > 0 {
		devices = []string{} // what was lent to this process is not the child's
	}
	if spec.Devices != nil {
		devices = spec.Devices
	} else if spec.Resources.GPU > 0 {
		if devices, release, err = n.acquireGPUs(ctx, spec.Resources.GPU); err != nil {
			return nil, c.failed(ctx, "", err)
		}
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		release()
		return nil, c.failed(ctx, "", ctx.Err())
	}
	// The wait for a turn, or for a GPU, does not count.
	c.late = fmt.Errorf("not up after %v (start_timeout)", n.Config.StartTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, n.Config.StartTimeout, c.late)
	defer cancel()
	ctx, c.giveUp = context.WithCancelCause(ctx)
	defer c.giveUp(nil)
	c.lent, c.avoid = devices, n.Avoided()
	id := n.Run + "-" + strconv.Itoa(serial) + "-" + rand.Text()
	if c.way, err = n.newDialback(ctx, id); err != nil {
		release()
		return nil, c.failed(ctx, "", err)
	}
	c.custody = c.way.custody()
	bootstrap := wire.Bootstrap{Process: id, Name: spec.Name, Build: Build(),
		MaxMessage: int64(n.Config.MaxMessage), Heartbeat: n.Config.HeartbeatInterval, Restore: runtimeSettings()}
	err = c.way.bootstrap(&bootstrap)
	var boot []byte
	if err == nil {
		boot, err = json.Marshal(bootstrap)
	}
	if err != nil {
		c.way.launched()
		c.way.close()
		release()
		return nil, c.failed(ctx, "", err)
	}
	env := os.Environ()
	if bootstrap.Credentials != nil {
		env = append(env, credentialsKey+"="+base64.StdEncoding.EncodeToString(bootstrap.Credentials))
	}
	stdout, stderr := n.outputs(spec.Name, &c.tail)
	c.job, err = n.Backend.Launch(ctx, backend.JobSpec{
		Name: spec.Name, Run: n.Run, Parent: n.Name, Executable: n.Config.Executable, Args: os.Args[1:],
		Env: env, Public: []string{bootstrapKey + "=" + string(boot)},
		Resources: spec.Resources, Devices: devices, Avoid: c.avoid, Socket: c.way.socket(), Stdout: stdout, Stderr: stderr,
	})
	c.way.launched()
	if err != nil {
		stdout.Close()
		stderr.Close()
		c.way.close()
		release()
		return nil, c.failed(ctx, "", err)
	}
	if err := c.introduce(ctx); err != nil {
		c.way.close()
		err = c.explain(ctx, err)
		release()
		return nil, err
	}
	n.startedOn(c.job.Host())
	n.add(c)
	n.Log.Debug("fiber: started", "process", spec.Name, "id", c.job.ID())
	c.watch(release)
	return c, nil
}

// introduce shakes hands with the new process and sends it its work.
func (c *Child) introduce(ctx context.Context) (err error) {
	stop := context.AfterFunc(ctx, c.way.close)
	defer func() {
		stop()
		if err == nil && ctx.Err() != nil { // its connection may be closing
			c.conn.Close()
			err = ctx.Err()
		}
	}()
	n := c.node
	ended := make(chan struct{})
	within, cancel := context.WithCancel(ctx)
	go func() { // a child that dials may end before there is a connection
		if c.job.Wait(within); within.Err() == nil {
			close(ended)
		}
	}()
	var hearing sync.WaitGroup
	hearing.Go(func() { c.heed(within) })
	defer hearing.Wait()
	defer cancel() // which ends heed
	conn, hello, err := c.way.meet(ctx, ended)
	if err != nil {
		return err
	}
	// Send finishes a message that has begun to leave, even after the end of ctx.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := n.fits(hello); err != nil {
		conn.Send(ctx, wire.MustPack(wire.KindRefuse, wire.Refuse{Reason: err.Error()})...)
		conn.Close()
		return err
	}
	credentials, err := n.Credentials.MarshalBinary()
	if err != nil {
		conn.Close()
		return err
	}
	assign := c.spec.Assign
	assign.Name, assign.Run, assign.Credentials, assign.Config = c.spec.Name, n.Run, credentials, n.Config
	assign.ParentName, assign.ParentPID, assign.Host = n.Name, os.Getpid(), c.job.Host()
	assign.Devices, assign.Place, assign.Cluster = c.lent, c.place, n.cluster
	if c.custody.engine {
		assign.Backend = n.Backend.Name()
	}
	if err := conn.Send(ctx, wire.MustPack(wire.KindAssign, assign, c.spec.Value...)...); err != nil {
		conn.Close()
		return err
	}
	c.conn, c.pid = conn, hello.PID
	return nil
}

// heed follows the job's events while it comes up. It gives up the start if its machine came to be avoided meanwhile:
// that machine may be dead, and silent until the start timeout.
func (c *Child) heed(ctx context.Context) {
	tell := c.spec.Pending
	if tell == nil {
		tell = func(string) {}
	}
	defer tell("")
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if host := c.job.Host(); c.node.fails(host) && !slices.Contains(c.avoid, host) {
				c.giveUp(errAvoided)
				return
			}
		case e, more := <-c.job.Events():
			if !more {
				return
			}
			reason := ""
			if e.Kind == backend.Pending {
				reason = e.Reason
			}
			c.pending.Store(reason)
			tell(reason)
			if reason != "" && c.node.warned.fresh(reason) {
				c.node.Log.Warn("fiber: a process waits to be started", "process", c.spec.Name, "id", c.job.ID(), "reason", reason)
			}
		case <-ctx.Done():
			return
		}
	}
}

// isLaunch says whether an error is a *backend.LaunchError.
func isLaunch(err error) bool {
	var launch *backend.LaunchError
	return errors.As(err, &launch)
}

// explain removes a job that did not come up and returns the reason. The machine is to blame if the job could not be
// started there for now, did not come up in time, could not reach this process, or did not end.
func (c *Child) explain(ctx context.Context, err error) error {
	select {
	case <-ctx.Done(): // there is no time to wait for the job's end
		switch context.Cause(ctx) {
		case errAvoided:
			c.discard()
			return errAvoided
		case c.late:
			return c.blame(c.failed(ctx, "", err))
		}
	default:
		// The job may have died and left a reason.
		wait, cancel := context.WithTimeout(context.Background(), c.custody.down)
		_, waitErr := c.job.Wait(wait)
		if errors.Is(waitErr, errAvoided) { // the root has given the start up
			cancel()
			c.remove()
			return errAvoided
		}
		if isLaunch(waitErr) {
			cancel()
			if launch := (*backend.LaunchError)(nil); errors.As(waitErr, &launch) && !launch.Permanent {
				return c.blame(waitErr)
			}
			c.remove()
			return waitErr
		}
		if waitErr == nil {
			cancel()
			status, _ := c.job.Wait(context.Background()) // returns at once
			if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) {
				c.remove()
				return err
			}
			reason := "it ended before it was ready: " + status.String()
			for _, line := range c.tail.Lines() {
				reason += "\n\t" + line
			}
			failed := &backend.LaunchError{Backend: c.node.Backend.Name(), Job: c.spec.Name, Reason: reason}
			if c.custody.engine && status.Code == unreachableCode {
				failed.Permanent = true
				return c.blame(failed)
			}
			c.remove()
			return failed
		}
		cancel()
		if mismatch := (*MismatchError)(nil); !errors.As(err, &mismatch) {
			return c.blame(c.failed(ctx, "", err))
		}
	}
	c.remove()
	return c.failed(ctx, "", err)
}

// blame counts err against the machine of a start, and discards the job. It
// returns err.
func (c *Child) blame(err error) error {
	c.node.strike(c.job.Host())
	c.discard()
	return err
}

// discard removes the job of a start that is given up. In a cluster it does so in the background, since a dead machine
// takes long; only the end of this process waits for that.
func (c *Child) discard() {
	if !c.node.cluster || c.job.Host() == "" {
		c.remove()
		return
	}
	c.node.starting.Add(1)
	go func() {
		defer c.node.starting.Done()
		c.remove()
	}()
}

func (c *Child) failed(ctx context.Context, reason string, err error) error {
	if ctx.Err() != nil {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, ErrShutdown):
			return cause
		case cause != c.late:
			return ctx.Err()
		}
		reason := c.late.Error()
		if waits, _ := c.pending.Load().(string); waits != "" {
			reason += ": " + waits
		} else if errors.Is(err, errNoHello) {
			reason += ": it has not reported to " + c.way.endpoint + ", where this process listens; if that cannot be reached from there, set FIBER_HOST to an address that can"
		}
		return &backend.LaunchError{Backend: c.node.Backend.Name(), Job: c.spec.Name, Reason: reason}
	}
	if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) {
		return err
	}
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
		if launch.Job != "" {
			return err
		}
		named := *launch // an error of Network, which is the same for every job
		named.Job = c.spec.Name
		return &named
	}
	return &backend.LaunchError{Backend: c.node.Backend.Name(), Job: c.spec.Name, Reason: reason, Err: err}
}
