package launch

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/transport"
)

const (
	// bootstrapKey is the environment variable of wire.Bootstrap.
	bootstrapKey = "FIBER_BOOTSTRAP"
	// credentialsKey is that of its Credentials, in base64.
	credentialsKey = "FIBER_CREDENTIALS"
	// exitGrace is how long a child may live on after its connection ended.
	exitGrace = 2 * time.Second
	// killGrace bounds the wait for a killed job that the backend cannot end.
	killGrace = 5 * time.Second
	// engineGrace is in the place of both where an engine tells of ends: it may
	// have much to do.
	engineGrace = 20 * time.Second
)

// errNoHello is a process that has not reported.
var errNoHello = errors.New("it has not reported")

// Spec is a process to start.
type Spec struct {
	Name      string
	Resources meta.Resources
	Devices   []string    // GPUs of AcquireGPUs; nil: Start acquires what it needs
	Assign    wire.Assign // Role, Func, Concurrency; the rest is filled in
	Value     [][]byte    // the encoded argument behind it
	Keep      any         // stays reachable until the process has ended
	// Pending, if there is one, is told what the start waits for, in the
	// backend's words, and "" when it waits no longer.
	Pending func(reason string)
	// Handle receives the messages that are not launch's own, one after
	// another. It must not block.
	Handle func(kind wire.Kind, frames [][]byte)
}

// Exit is how a child ended.
type Exit struct {
	backend.ExitStatus
	Stderr []string // the last 20 lines
	// Err is what its function returned; Returned says that it did return.
	Err      *wire.Error
	Returned bool
}

// Child is a process that this one started.
type Child struct {
	node *Node
	spec Spec
	job  backend.Job
	way  *way

	place string // in the tree; see places
	conn  *transport.Conn
	tail  tail
	pid   int

	turn     *turn.Turn
	resident atomic.Int64
	pending  atomic.Value // string: what the start waits for
	done     chan struct{}

	mu     sync.Mutex
	exit   Exit
	reason string // why we ended it, "" when we did not
	killed bool
	told   bool // it was asked to end, or killed without a reason

	remote  bool           // it is not on this machine, or behind an engine
	over    bool           // it is signalled no more
	signals sync.WaitGroup // on their way to it, where it is remote

	lent     []string            // GPUs on loan to it
	devices  []string            // GPUs on loan to the processes below it
	below    map[string]struct{} // jobs of the processes below it
	asks     context.Context
	stopAsks context.CancelFunc
	asking   sync.WaitGroup
}

// Start starts a process and returns when it has taken its work on. It blocks
// until then, until ctx ends, or for the configured start timeout, which does
// not count the time that it waits for GPUs. An error is
// a *backend.LaunchError or a *MismatchError, or the ctx's, and nothing is
// left behind.
func (n *Node) Start(ctx context.Context, spec Spec) (*Child, error) {
	serial, err := n.enter()
	if err != nil {
		return nil, err
	}
	defer n.starting.Done()
	c := &Child{node: n, spec: spec, place: n.placeOf(serial), done: make(chan struct{})}
	c.asks, c.stopAsks = context.WithCancel(context.Background())
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
	// Waiting for its turn, or for a GPU, is no part of the start.
	ctx, cancel := context.WithTimeoutCause(ctx, n.Config.StartTimeout,
		fmt.Errorf("not up after %v (start_timeout)", n.Config.StartTimeout))
	defer cancel()
	c.lent = devices
	id := n.Run + "-" + strconv.Itoa(serial) + "-" + rand.Text()
	if c.way, err = n.newWay(ctx, id); err != nil {
		release()
		return nil, c.failed(ctx, "", err)
	}
	c.remote = c.way.remote()
	bootstrap := wire.Bootstrap{Process: id, Build: Build(),
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
	stdout, stderr := n.outputs(spec.Name, c.remote, &c.tail)
	c.job, err = n.Backend.Launch(ctx, backend.JobSpec{
		Name: spec.Name, Run: n.Run, Parent: n.Name, Executable: n.Config.Executable, Args: os.Args[1:],
		Env: env, Public: []string{bootstrapKey + "=" + string(boot)},
		Resources: spec.Resources, Devices: devices, Socket: c.way.socket(), Stdout: stdout, Stderr: stderr,
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
	n.add(c)
	n.Log.Debug("fiber: started", "process", spec.Name, "id", c.job.ID())
	go c.watch(release)
	return c, nil
}

// introduce shakes hands with the new process and gives it its work.
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
	if c.remote { // no connection tells of its end
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			if _, err := c.job.Wait(within); err == nil || isLaunch(err) {
				close(ended)
			}
		}()
		var hearing sync.WaitGroup
		hearing.Go(func() { c.heed(within) })
		defer hearing.Wait()
		defer cancel() // before that
	}
	conn, hello, err := c.way.meet(ctx, ended)
	if err != nil {
		return err
	}
	// A message that has begun to leave waits for its reader, whatever ctx says.
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
	assign.Devices, assign.Place = c.lent, c.place
	if c.remote {
		assign.Backend = n.Backend.Name()
	}
	if err := conn.Send(ctx, wire.MustPack(wire.KindAssign, assign, c.spec.Value...)...); err != nil {
		conn.Close()
		return err
	}
	c.conn, c.pid = conn, hello.PID
	c.turn = turn.New(c.readOne, conn)
	return nil
}

// heed listens to what happens to the job while it comes up.
func (c *Child) heed(ctx context.Context) {
	tell := c.spec.Pending
	if tell == nil {
		tell = func(string) {}
	}
	defer tell("")
	for {
		select {
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
			if reason != "" && c.node.waits.fresh(reason) {
				c.node.Log.Warn("fiber: a process waits to be started", "process", c.spec.Name, "id", c.job.ID(), "reason", reason)
			}
		case <-ctx.Done():
			return
		}
	}
}

// isLaunch says whether an error is of a job that could not be started.
func isLaunch(err error) bool {
	var launch *backend.LaunchError
	return errors.As(err, &launch)
}

// explain ends a job that did not come up and says why it did not.
func (c *Child) explain(ctx context.Context, err error) error {
	select {
	case <-ctx.Done(): // it is not to be waited for
	default:
		// It may have died with something to say.
		wait, cancel := context.WithTimeout(context.Background(), exitGrace)
		_, waitErr := c.job.Wait(wait)
		if isLaunch(waitErr) {
			cancel()
			c.remove()
			return waitErr
		}
		if waitErr == nil {
			cancel()
			status, _ := c.job.Wait(context.Background()) // it is there
			if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) {
				c.remove()
				return err
			}
			reason := "it ended before it was ready: " + status.String()
			for _, line := range c.tail.Lines() {
				reason += "\n\t" + line
			}
			c.remove()
			return &backend.LaunchError{Backend: c.node.Backend.Name(), Job: c.spec.Name, Reason: reason,
				Permanent: c.remote && status.Code == unreachableCode}
		}
		cancel()
	}
	c.remove()
	return c.failed(ctx, "", err)
}

// remove has the backend forget the job.
func (c *Child) remove() {
	_, killGrace := c.graces()
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	if err := c.job.Remove(ctx); err != nil {
		c.node.Log.Warn("fiber: a job was not removed", "process", c.spec.Name, "id", c.job.ID(), "error", err)
	}
}

// graces are how long the end of the job is waited for, by itself and killed.
func (c *Child) graces() (exit, kill time.Duration) {
	if c.remote {
		return engineGrace, engineGrace
	}
	return exitGrace, killGrace
}

func (c *Child) failed(ctx context.Context, reason string, err error) error {
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if waits, _ := c.pending.Load().(string); waits != "" {
			if cause != ctx.Err() && !errors.Is(cause, ErrShutdown) {
				cause = fmt.Errorf("%w: %s", cause, waits)
			}
		} else if errors.Is(err, errNoHello) && cause != ctx.Err() && !errors.Is(cause, ErrShutdown) {
			cause = fmt.Errorf("%w: it has not reported to %s, where this process listens; if that cannot be reached from there, set FIBER_HOST to an address that can", cause, c.way.endpoint)
		}
		if errors.Is(cause, ErrShutdown) {
			return cause
		}
		if cause != ctx.Err() { // the start timeout
			return &backend.LaunchError{Backend: c.node.Backend.Name(), Job: c.spec.Name, Reason: cause.Error()}
		}
		return ctx.Err()
	}
	if mismatch := (*MismatchError)(nil); errors.As(err, &mismatch) {
		return err
	}
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
		if launch.Job != "" {
			return err
		}
		named := *launch // one of the network's, for every job
		named.Job = c.spec.Name
		return &named
	}
	return &backend.LaunchError{Backend: c.node.Backend.Name(), Job: c.spec.Name, Reason: reason, Err: err}
}

// watch reads what the child says until it has ended.
func (c *Child) watch(release func()) {
	ended := make(chan backend.ExitStatus, 1)
	go func() {
		status, _ := c.job.Wait(context.Background())
		ended <- status
		c.hangUp()
	}()
	readErr := c.turn.Read()
	c.conn.Close()
	c.node.cutOff(c)
	if errors.Is(readErr, transport.ErrSilent) {
		c.Kill(fmt.Sprintf("nothing heard from it for %v (heartbeat_timeout)", c.node.Config.HeartbeatTimeout))
	}
	exitGrace, killGrace := c.graces()
	grace := time.NewTimer(exitGrace)
	defer grace.Stop()
	var status backend.ExitStatus
	select {
	case status = <-ended:
	case <-grace.C:
		c.Kill("its connection ended but it did not")
		select {
		case status = <-ended:
		case <-time.After(killGrace):
			status = backend.ExitStatus{Code: -1, Reason: "it did not end within " + killGrace.String() + " of being killed"}
		}
	}
	c.stopAsks()
	c.asking.Wait()
	release()
	c.mu.Lock()
	devices, below := c.devices, c.below
	c.devices, c.below = nil, nil
	c.mu.Unlock()
	c.node.releaseGPUs(devices)
	c.node.removeJobs(below)
	c.mu.Lock()
	c.exit.ExitStatus, c.exit.Stderr = status, c.tail.Lines()
	if c.reason != "" {
		c.exit.Reason = c.reason
	}
	c.mu.Unlock()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.signals.Wait()
	c.remove()
	c.node.remove(c)
	c.spec.Keep = nil
	c.node.Log.Debug("fiber: ended", "process", c.spec.Name, "id", c.job.ID(), "how", c.exit.String())
	close(c.done)
}

// hangUp ends the connection to a process that has ended, or was killed, if it
// does not do so itself. A process elsewhere may live on when its engine, or this
// process, has lost sight of it.
func (c *Child) hangUp() {
	if c.remote {
		time.AfterFunc(engineGrace, func() { c.conn.Close() })
	}
}

// StepAside lets a caller read the child's next messages; see turn.Turn.
func (c *Child) StepAside() { c.turn.StepAside() }

// Attend has what the child says read at once, by somebody.
func (c *Child) Attend() { c.turn.Attend() }

// Lead reads and handles what the child says until done is closed, or for a
// moment.
func (c *Child) Lead(done <-chan struct{}) {
	c.turn.Lead(func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

// readOne waits for one message and handles it.
func (c *Child) readOne() error {
	frames, err := c.conn.Recv()
	if err != nil {
		return err
	}
	switch kind := wire.KindOf(frames); kind {
	case wire.KindDone:
		var done wire.Done
		if err := wire.Unpack(frames, &done); err != nil {
			return err
		}
		c.mu.Lock()
		c.exit.Err, c.exit.Returned = done.Err, true
		c.mu.Unlock()
		if c.spec.Handle != nil {
			c.spec.Handle(kind, frames)
		}
	case wire.KindBye:
		return c.conn.Post(wire.MustPack(wire.KindBye, nil)...)
	case wire.KindTunnel:
		return c.node.pass(frames)
	case wire.KindStatus:
		var status wire.Status
		if err := wire.Unpack(frames, &status); err != nil {
			return err
		}
		c.resident.Store(status.Resident)
	case wire.KindAsk:
		var ask wire.Ask
		if err := wire.Unpack(frames, &ask); err != nil {
			return err
		}
		c.asking.Add(1)
		go c.answer(ask, frames[1:])
	default:
		if c.spec.Handle == nil {
			return fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind)
		}
		c.spec.Handle(kind, frames)
	}
	return nil
}

// Post queues a message for the child; see transport.Conn.Post.
func (c *Child) Post(frames ...[]byte) error { return c.conn.Post(frames...) }

// Stop asks a worker to end when it has finished what it holds.
func (c *Child) Stop() {
	c.tell()
	c.conn.Post(wire.MustPack(wire.KindStop, nil)...)
}

func (c *Child) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = true
}

// Terminate asks the process to end. It does not wait.
func (c *Child) Terminate() error {
	c.tell()
	return c.signal(backend.Terminate)
}

// signal has the backend signal the job. Where that takes an engine's time it
// is not waited for: the caller may hold up others.
func (c *Child) signal(sig backend.Signal) error {
	if !c.remote {
		return c.job.Signal(context.Background(), sig)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.signals.Go(func() { c.signalNow(sig) })
	}
	return nil
}

// signalNow signals the job and returns when that is done.
func (c *Child) signalNow(sig backend.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), engineGrace)
	defer cancel()
	if err := c.job.Signal(ctx, sig); err != nil {
		c.node.Log.Warn("fiber: signalling a process", "process", c.spec.Name, "id", c.job.ID(), "error", err)
	}
}

// Kill ends the process at once; a reason goes into its exit status.
func (c *Child) Kill(reason string) error {
	c.condemn(reason)
	return c.signal(backend.Kill)
}

// condemn notes that the process is to be killed, and has it end itself where
// an engine may ask it to end first, and take its time, or not answer.
func (c *Child) condemn(reason string) {
	c.mu.Lock()
	if c.reason == "" && !c.killed {
		c.reason = reason
	}
	first := !c.killed
	c.killed = true
	c.told = c.told || reason == ""
	c.mu.Unlock()
	if c.remote && first {
		c.conn.Post(wire.MustPack(wire.KindKill, nil)...)
		c.hangUp()
	}
}

// Done is closed when the process has ended and all it said has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit is how it ended; only after Done.
func (c *Child) Exit() Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Ending says how it ended, or nothing when it was told to end; only after
// Done.
func (c *Child) Ending() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told {
		return ""
	}
	return c.exit.String()
}

// Name is the name that it was started with.
func (c *Child) Name() string { return c.spec.Name }

// Job is what the backend runs it as.
func (c *Child) Job() backend.Job { return c.job }

// Backend is the name of what runs it.
func (c *Child) Backend() string { return c.node.Backend.Name() }

// PID is its process id in its own operating system.
func (c *Child) PID() int { return c.pid }

// Logs reads its output; see backend.Job.
func (c *Child) Logs(ctx context.Context) (io.ReadCloser, error) {
	return c.job.Logs(ctx, backend.LogOptions{Follow: true})
}

// Resident is how many bytes of it were in memory when it last said so.
func (c *Child) Resident() int64 { return c.resident.Load() }

// socketPair makes a connected pair: this process's end, and the child's.
func socketPair() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock() // nobody is to fork in between
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	mine := os.NewFile(uintptr(fds[0]), "fiber-child")
	defer mine.Close()
	theirs := os.NewFile(uintptr(fds[1]), "fiber-parent")
	nc, err := net.FileConn(mine)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return nc, theirs, nil
}
