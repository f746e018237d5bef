package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// engineGrace bounds the wait for a process that lives on although it was killed, or its
// job has ended, and for what an engine is asked for: it may have much to do.
const engineGrace = 20 * time.Second

// custody is how the jobs of a backend are looked after.
type custody struct {
	// engine says that an engine runs them. It takes its time for what it is asked,
	// may lose a process from sight, and takes requests from the root alone.
	engine bool
	down   time.Duration // until it is known how a process ended that has not come up
	exit   time.Duration // how long a process may live on after its connection ended
	kill   time.Duration // how long one may that was killed
}

// A job is this process's own, or an engine's.
var (
	ownJobs    = &custody{down: 2 * time.Second, exit: 2 * time.Second, kill: 5 * time.Second}
	engineJobs = &custody{engine: true, down: sureAfter, exit: engineGrace, kill: engineGrace}
)

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
	way  *dialback

	place  string                  // in the tree; see places
	avoid  []string                // machines that it was to avoid
	late   error                   // the cause of a context whose start timeout has passed
	giveUp context.CancelCauseFunc // of its start
	conn   *transport.Conn
	tail   tail
	pid    int

	turn     *turn.Turn
	streams  streams
	resident atomic.Int64
	pending  atomic.Value // string: what the start waits for
	gone     chan struct{}
	done     chan struct{}

	mu     sync.Mutex
	exit   Exit
	reason string // why we ended it, "" when we did not
	killed bool
	told   bool // it ends with this process

	parting bool // it said goodbye, or was asked to end

	custody *custody
	over    bool           // it is signalled no more
	signals sync.WaitGroup // that an engine is about to pass on

	lent  []string // GPUs on loan to it
	loans []*loan  // to the processes below it
}

// remove has the backend forget the job.
func (c *Child) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), c.custody.kill)
	defer cancel()
	if err := c.job.Remove(ctx); err != nil {
		c.node.Log.Warn("fiber: a job was not removed", "process", c.spec.Name, "id", c.job.ID(), "error", err)
	}
}

// watch waits for the end of the job, and has read what the child says until then.
func (c *Child) watch(release func()) {
	ended := make(chan backend.ExitStatus, 1)
	go func() {
		status, _ := c.job.Wait(context.Background())
		ended <- status
		c.hangUp()
	}()
	c.turn = turn.New(c.conn, c.readOne, func(err error) { c.end(err, ended, release) })
	go c.turn.Read()
}

// end cleans up after a child whose connection has ended.
func (c *Child) end(readErr error, ended <-chan backend.ExitStatus, release func()) {
	c.conn.Close()
	c.node.cutOff(c)
	silent := errors.Is(readErr, transport.ErrSilent)
	acquit := func() {}
	if c.unexpected() { // until more is known, its machine is to blame
		acquit = c.node.strike(c.job.Host())
	}
	if silent {
		c.Kill(fmt.Sprintf("nothing heard from it for %v (heartbeat_timeout)", c.node.Config.HeartbeatTimeout))
	}
	close(c.gone)
	status, byItself := c.reap(ended, silent)
	if byItself {
		acquit()
	}
	c.streams.serving.Wait()
	release()
	for _, l := range c.loans {
		l.release()
	}
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

// reap waits until the job has ended, and kills it when it lives on for too long
// after its connection; killed says that this has been done.
func (c *Child) reap(ended <-chan backend.ExitStatus, killed bool) (_ backend.ExitStatus, byItself bool) {
	if !killed {
		select {
		case status := <-ended:
			return status, true
		case <-time.After(c.custody.exit):
			c.Kill("its connection ended but it did not")
		}
	}
	select {
	case status := <-ended:
		return status, false
	case <-time.After(c.custody.kill):
		return backend.ExitStatus{Code: -1, Reason: "it did not end within " + c.custody.kill.String() + " of being killed"}, false
	}
}

// unexpected says that the process was to go on: it has not returned, nor said goodbye, nor was it told to end.
func (c *Child) unexpected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.exit.Returned && !c.parting && !c.told && !c.killed
}

// hangUp ends the connection to a process that has ended, or was killed, if it
// does not do so itself. A process elsewhere may live on when its engine, or this
// process, has lost sight of it.
func (c *Child) hangUp() {
	if !c.custody.engine {
		return
	}
	select {
	case <-c.gone:
	case <-time.After(engineGrace):
		c.conn.Close()
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
func (c *Child) readOne() (func(), error) {
	frames, err := c.conn.Recv()
	if err == nil {
		err = c.handle(frames)
	}
	return nil, err
}

// handle handles a message of the child's.
func (c *Child) handle(frames [][]byte) error {
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
		c.parts()
		return c.conn.Post(wire.MustPack(wire.KindBye, nil)...)
	case wire.KindStream:
		c.session()
		c.streams.take(frames[1:])
	case wire.KindStatus:
		var status wire.Status
		if err := wire.Unpack(frames, &status); err != nil {
			return err
		}
		c.resident.Store(status.Resident)
	default:
		if c.spec.Handle == nil {
			return fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind)
		}
		c.spec.Handle(kind, frames)
	}
	return nil
}

// session is that of the streams between this process and the child.
func (c *Child) session() *yamux.Session {
	return c.streams.over(c.conn, yamux.Server, func(s net.Conn) { c.node.serve(s, c) })
}

// Post queues a message for the child; see transport.Conn.Post.
func (c *Child) Post(frames ...[]byte) error { return c.conn.Post(frames...) }

// Stop asks a worker to end when it has finished what it holds.
func (c *Child) Stop() {
	c.conn.Post(wire.MustPack(wire.KindStop, nil)...)
}

// Terminate asks the process to end. It does not wait.
func (c *Child) Terminate() error {
	c.announce()
	return c.signal(backend.Terminate)
}

// announce has the process know that the SIGTERM to come is its parent's.
func (c *Child) announce() {
	c.parts()
	c.conn.Post(wire.MustPack(wire.KindTerminate, nil)...)
}

func (c *Child) parts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parting = true
}

// tell notes that the process is ended because this one ends.
func (c *Child) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = true
}

// signal has the backend signal the job. Where that takes an engine's time it
// is not waited for: the caller may hold up others.
func (c *Child) signal(sig backend.Signal) error {
	if !c.custody.engine {
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
	c.mu.Unlock()
	if first {
		c.conn.Post(wire.MustPack(wire.KindKill, nil)...)
		go c.hangUp()
	}
}

// Gone is closed when all that the process said has been read and nothing more
// will come. How it ended is known when Done is closed, which may take an engine
// a while longer.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Done is closed when the process has ended and all it said has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit is how it ended; only after Done.
func (c *Child) Exit() Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Told says that it was told to end because this process ends.
func (c *Child) Told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// Ending says how it ended; only after Done.
func (c *Child) Ending() string { return c.Exit().String() }

// Describe is its name, what the backend runs it as, and where, for a log.
func (c *Child) Describe() []any {
	id, host := "process", "host"
	switch c.Backend() {
	case "docker":
		id = "container"
	case "kubernetes":
		id, host = "pod", "node"
	}
	what := []any{"worker", c.Name(), id, c.job.ID()}
	if at := c.job.Host(); at != "" { // it was placed
		what = append(what, host, at)
	}
	return what
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
