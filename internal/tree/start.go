package tree

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// bootstrapKey is the environment variable of wire.Bootstrap.
const bootstrapKey = "FIBER_BOOTSTRAP"

// The causes of a start's ctx when the start is given up.
var (
	errAvoided = errors.New("its machine is avoided by now")
	errLate    = errors.New("start_timeout")
)

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
// behind, except that a removal which takes longer than a second goes on in the
// background.
func (n *Node) Start(ctx context.Context, spec Spec) (*Child, error) {
	for {
		c, err := n.start(ctx, spec)
		if !errors.Is(err, errAvoided) {
			return c, err
		}
	}
}

// start is one try. After errAvoided, Start tries again.
func (n *Node) start(ctx context.Context, spec Spec) (_ *Child, err error) {
	serial, left, err := n.enter("the start of " + spec.Name)
	if err != nil {
		return nil, err
	}
	defer left()
	ctx, giveUp := n.whileStarting(ctx)
	defer giveUp(nil)
	c := &Child{node: n, spec: spec, place: n.placeOf(serial), giveUp: giveUp, release: func() {}, ended: make(chan struct{}),
		gone: make(chan struct{}), reaped: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	switch {
	case spec.Devices != nil:
		c.lent = spec.Devices
	case spec.Resources.GPU > 0:
		devices, release, err := n.acquireGPUs(ctx, spec.Resources.GPU)
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		c.lent, c.release = devices, release
	case n.Parent != nil && len(n.Parent.Assign.Devices) > 0:
		c.lent = []string{} // what was lent to this process is not the child's
	}
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return nil, c.failed(ctx, ctx.Err())
	}
	// The wait for a turn, or for a GPU, does not count.
	defer time.AfterFunc(n.Config.StartTimeout, func() { giveUp(errLate) }).Stop()
	if err := c.launch(ctx, n.Run+"-"+strconv.Itoa(serial)+"-"+rand.Text()); err != nil {
		return nil, c.failed(ctx, err)
	}
	if err := c.introduce(ctx); err != nil {
		c.way.close()
		return nil, c.explain(ctx, err)
	}
	n.startedOn(c.job.Host())
	n.add(c)
	n.Log.Debug("fiber: started", "process", spec.Name, "id", c.job.ID())
	c.watch()
	return c, nil
}

// launch has the backend run the process.
func (c *Child) launch(ctx context.Context, id string) (err error) {
	n := c.node
	c.avoid = n.Avoided()
	if c.way, err = n.newDialback(ctx, id); err != nil {
		return err
	}
	defer c.way.launched()
	c.grace = ownGrace
	if c.way.endpoint != "" {
		c.grace = engineGrace
	}
	bootstrap := wire.Bootstrap{Process: id, Name: c.spec.Name, Build: Build(),
		MaxMessage: int64(n.Config.MaxMessage), Heartbeat: n.Config.HeartbeatInterval, Restore: runtimeSettings()}
	c.way.bootstrap(n, &bootstrap)
	boot, _ := json.Marshal(bootstrap) // never fails
	env := os.Environ()
	if bootstrap.Credentials != nil {
		env = append(env, wire.CredentialsKey+"="+base64.StdEncoding.EncodeToString(bootstrap.Credentials))
	}
	c.job, err = n.launch(ctx, backend.JobSpec{Name: c.spec.Name, Parent: n.Name,
		Env: env, Public: []string{bootstrapKey + "=" + string(boot)},
		Resources: c.spec.Resources, Devices: c.lent, Avoid: c.avoid, Socket: c.way.socket}, &c.tail)
	if err != nil {
		c.way.close()
		return err
	}
	go func() {
		c.status, c.failure = c.job.Wait(context.Background())
		if c.failure != nil { // it may be up all the same: an engine learns late of a start
			c.status = backend.ExitStatus{Code: -1, Reason: c.failure.Error()}
		}
		close(c.ended)
	}()
	return nil
}

// introduce shakes hands with the new process and sends it its work.
func (c *Child) introduce(ctx context.Context) (err error) {
	stop := context.AfterFunc(ctx, c.way.close)
	defer func() {
		if !stop() && err == nil { // its connection may be closing
			err = ctx.Err()
		}
		if err != nil && c.conn != nil {
			c.conn.Close()
		}
	}()
	n := c.node
	within, cancel := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	hearing.Go(func() { c.heed(within) })
	defer hearing.Wait()
	defer cancel() // which ends heed
	conn, hello, err := c.way.meet(ctx, c.ended)
	if err != nil {
		return err
	}
	c.conn, c.pid = conn, hello.PID
	// Send finishes a message that has begun to leave, even after the end of ctx.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := n.fits(hello); err != nil {
		conn.Send(ctx, wire.MustPack(wire.KindRefuse, wire.Refuse{Reason: err.Error()})...)
		return err
	}
	assign := c.spec.Assign
	assign.Name, assign.Run, assign.Config = c.spec.Name, n.Run, n.Config
	assign.Credentials, _ = n.Credentials.MarshalBinary() // never fails
	assign.ParentName, assign.ParentPID, assign.Host = n.Name, os.Getpid(), c.job.Host()
	assign.Devices, assign.Place, assign.Cluster = c.lent, c.place, n.cluster
	if c.way.endpoint != "" {
		assign.Backend = n.Backend.Name()
	}
	return conn.Send(ctx, wire.MustPack(wire.KindAssign, assign, c.spec.Value...)...)
}

// heed follows the job while it comes up, and says what it waits for.
func (c *Child) heed(ctx context.Context) {
	tell := c.spec.Pending
	if tell == nil {
		tell = func(string) {}
	}
	defer tell("")
	err := c.node.follow(ctx, c.job, c.avoid, func(p progress) {
		c.pending.Store(p.Reason)
		tell(p.Reason)
		if p.Reason != "" && c.node.warned.add(p.Reason) {
			c.node.Log.Warn("fiber: a process waits to be started", "process", c.spec.Name, "id", c.job.ID(), "reason", p.Reason)
		}
	})
	if err != nil {
		c.giveUp(err)
	}
}

// explain removes a job that did not come up and returns the reason. The machine is to blame if the job could not be
// started there for now, did not come up in time, could not reach this process, or did not end.
func (c *Child) explain(ctx context.Context, err error) error {
	blame := context.Cause(ctx) == errLate
	if mismatch := (*MismatchError)(nil); ctx.Err() == nil && !errors.As(err, &mismatch) {
		select {
		case <-c.ended: // it may have left a reason
			err, blame = c.lastWords()
		case <-time.After(sureAfter):
			blame = true
		}
	}
	err = c.failed(ctx, err) // before the removal, during which ctx may end
	if blame {
		c.node.strike(c.job.Host())
	}
	c.discard()
	return err
}

// discardTime is how long a start waits for the removal of a job that did not
// come up.
const discardTime = time.Second

// discard removes a job that did not come up, and gives back what was lent to it.
// A dead machine, or an engine that does not answer, takes long. Only the end of
// this process waits for that.
func (c *Child) discard() {
	release, removed := c.release, make(chan struct{})
	c.release = func() {}
	n := c.node
	n.mu.Lock()
	done := n.note("the removal of " + c.spec.Name)
	n.mu.Unlock()
	n.starting.Go(func() {
		defer close(removed)
		defer done()
		c.remove()
		release()
	})
	select {
	case <-removed:
	case <-time.After(discardTime):
	}
}

// lastWords returns why a job has ended that did not come up, and whether its
// machine is to blame.
func (c *Child) lastWords() (err error, blame bool) {
	if launch := (*backend.LaunchError)(nil); errors.As(c.failure, &launch) {
		return launch, !launch.Permanent
	}
	if c.failure != nil {
		return c.failure, false
	}
	launch := EndedEarly(c.status, c.tail.Lines())
	launch.Permanent = c.way.endpoint != "" && c.status.Code == unreachableCode
	return launch, launch.Permanent
}

// EndedEarly makes the error of a process that has ended before it was ready.
// Its last word is most often the reason.
func EndedEarly(how backend.ExitStatus, stderr []string) *backend.LaunchError {
	reason := "it ended before it was ready: " + how.String()
	if n := len(stderr); n > 0 {
		reason += ": " + strings.TrimSpace(strings.TrimPrefix(stderr[n-1], "fiber: "))
	}
	return &backend.LaunchError{Reason: reason, Stderr: stderr}
}

// failed returns the error of a start. The end of its ctx counts more than what came of it.
func (c *Child) failed(ctx context.Context, err error) error {
	launch := &backend.LaunchError{Err: err}
	mismatch := (*MismatchError)(nil)
	switch cause := context.Cause(ctx); {
	case cause == errLate:
		launch = &backend.LaunchError{Reason: fmt.Sprintf("not up after %v (start_timeout)", c.node.Config.StartTimeout)}
		if waits, _ := c.pending.Load().(string); waits != "" {
			launch.Reason += ": " + waits
		} else if errors.Is(err, errNoHello) {
			launch.Reason += ": it has not reported to " + c.way.endpoint + ", where this process listens; if that cannot be reached from there, set FIBER_HOST to an address that can"
		}
	case cause == errAvoided, errors.Is(cause, ErrShutdown):
		return cause
	case cause != nil:
		return ctx.Err()
	case errors.Is(err, errAvoided), errors.As(err, &mismatch):
		return err
	case errors.As(err, &launch) && launch.Job != "":
		return launch
	}
	// The backend's Network, the root and the GPUs know no job.
	named := *launch
	named.Backend, named.Job = c.node.Backend.Name(), c.spec.Name
	return &named
}
