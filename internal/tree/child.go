package tree

import (
	"cmp"
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

// engineGrace bounds the wait for an engine, which may have much to do: for its answers, and for
// the end of a process that was killed, or whose job has ended.
const engineGrace = 20 * time.Second

// ownGrace bounds the wait for the end of a process that this one runs itself.
const ownGrace = 5 * time.Second

// Exit is how a child ended.
type Exit struct {
	backend.ExitStatus
	Stderr []string // the last 20 lines
	// Err is the error of its function; Returned says that the function has
	// returned.
	Err      *wire.Error
	Returned bool
}

// Child is a process that this one started.
type Child struct {
	node *Node
	spec Spec
	job  backend.Job
	way  *dialback

	place  string                  // in the tree; see routes
	avoid  []string                // machines that the job was to avoid
	giveUp context.CancelCauseFunc // of its start
	conn   *transport.Conn
	tail   tail
	pid    int

	turn     *turn.Turn
	streams  streams
	resident atomic.Int64
	pending  atomic.Value // string: what the start waits for

	grace   time.Duration      // how long it may live on after its connection ended, or after it was killed
	ended   chan struct{}      // closed when the job has ended, with what follows
	status  backend.ExitStatus // how it ended
	failure error              // why it could not be started

	gone   chan struct{}
	reaped chan struct{} // closed when the job has ended, or is taken for ended
	done   chan struct{}

	signals sync.WaitGroup // on their way to an engine; none begins once reaped is closed

	mu       sync.Mutex
	exit     Exit
	reason   string // why this process killed it, "" when it did not
	killed   bool
	expected bool // its end: it has returned, said goodbye, or was told or made to end

	lent    []string // GPUs on loan to it
	release func()   // gives them back
	loans   []string // those on loan to the processes below it
}

func (c *Child) remove() { c.node.removeJob(c.spec.Name, c.job, c.grace) }

// watch reads what the child says, and waits for the job's end, in the background.
func (c *Child) watch() {
	go func() {
		<-c.ended
		c.hangUp()
	}()
	c.turn = turn.New(c.conn.Await, c.readOne, c.end)
	go c.turn.Read()
}

// end cleans up after a child whose connection has ended.
func (c *Child) end(readErr error) {
	c.conn.Close()
	c.streams.end()
	c.mu.Lock()
	expected := c.expected
	c.mu.Unlock()
	acquit := func() {}
	if !expected { // its machine is to blame until the job's end says otherwise
		acquit = c.node.strike(c.job.Host())
	}
	silent := errors.Is(readErr, transport.ErrSilent)
	if silent {
		c.Kill(fmt.Sprintf("nothing heard from it for %v (heartbeat_timeout)", c.node.Config.HeartbeatTimeout))
	}
	close(c.gone)
	status, byItself := c.reap(silent)
	if byItself {
		acquit()
	}
	close(c.reaped)
	c.streams.serving.Wait()
	c.release()
	c.mu.Lock()
	c.exit.ExitStatus, c.exit.Stderr = status, c.tail.Lines()
	if c.reason != "" {
		c.exit.Reason = c.reason
	}
	c.mu.Unlock()
	c.signals.Wait()
	c.remove()
	c.node.remove(c)
	c.spec.Keep = nil
	c.node.Log.Debug("fiber: ended", "process", c.spec.Name, "id", c.job.ID(), "how", c.exit.String())
	close(c.done)
}

// reap waits until the job has ended, and kills it if it outlives its connection
// for too long; killed says that it has been killed already. byItself says that
// it ended without being killed.
func (c *Child) reap(killed bool) (_ backend.ExitStatus, byItself bool) {
	for {
		select {
		case <-c.ended:
			return c.status, !killed
		case <-time.After(c.grace):
		}
		if killed {
			return backend.ExitStatus{Code: -1, Reason: "it did not end within " + c.grace.String() + " of being killed"}, false
		}
		c.Kill("its connection ended but it did not")
		killed = true
	}
}

// hangUp closes the connection to a process that has ended, or was killed, if it
// stays open. A process on an engine may live on after the engine, or this
// process, has lost sight of it.
func (c *Child) hangUp() {
	select {
	case <-c.gone:
	case <-time.After(engineGrace):
		c.conn.Close()
	}
}

// StepAside lets a caller read the child's next messages; see turn.Turn.
func (c *Child) StepAside() { c.turn.StepAside() }

// Attend makes another goroutine read the child's messages at once; see
// turn.Turn.
func (c *Child) Attend() { c.turn.Attend() }

// Lead reads and handles what the child says until done is closed or ctx ends, as
// long as it comes in quick succession; see turn.Turn.
func (c *Child) Lead(ctx context.Context, done <-chan struct{}) {
	c.turn.Lead(ctx, turn.Closed(done))
}

// readOne waits for one message and handles it.
func (c *Child) readOne(ctx context.Context) (func(), error) {
	frames, err := c.conn.RecvContext(ctx)
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
		c.exit.Err, c.exit.Returned, c.expected = done.Err, true, true
		c.mu.Unlock()
		if c.spec.Handle != nil {
			c.spec.Handle(kind, frames)
		}
	case wire.KindBye:
		c.expect()
		return c.conn.Post(wire.MustPack(wire.KindBye, nil)...)
	case wire.KindStream:
		c.session()
		c.streams.carrier.take(frames[1:])
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

// session returns the session of the streams between this process and the child.
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

// announce tells the process that the SIGTERM to come is its parent's.
func (c *Child) announce() {
	c.expect()
	c.conn.Post(wire.MustPack(wire.KindTerminate, nil)...)
}

// expect notes that the process is about to end, as it should.
func (c *Child) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected = true
}

// signal makes the backend signal the job. It does not wait for an engine, since
// the caller may hold up others.
func (c *Child) signal(sig backend.Signal) error {
	if c.way.endpoint == "" {
		return c.job.Signal(context.Background(), sig)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.reaped:
	default:
		c.signals.Go(func() { c.node.signal(c.spec.Name, c.job, sig) })
	}
	return nil
}

// Kill ends the process at once. The reason, unless "", goes into its exit
// status.
func (c *Child) Kill(reason string) error {
	c.condemn(reason)
	return c.signal(backend.Kill)
}

// condemn notes that the process is to be killed, and tells it to end itself: an
// engine may ask it to end first, take its time, or not answer.
func (c *Child) condemn(reason string) {
	c.mu.Lock()
	first := !c.killed
	c.reason = cmp.Or(c.reason, reason)
	c.killed, c.expected = true, true
	c.mu.Unlock()
	if first {
		c.conn.Post(wire.MustPack(wire.KindKill, nil)...)
		go c.hangUp()
	}
}

// Gone is closed when all that the process said has been read and nothing more
// will come. How it ended is known only when Done is closed, which may take an
// engine a while longer.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Done is closed when the process has ended and all it said has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit returns how the process ended. It is valid only after Done.
func (c *Child) Exit() Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Told says whether the process was told to end because this one ends.
func (c *Child) Told() bool { return c.node.starts.Err() != nil }

// Ending says in words how the process ended. It is valid only after Done.
func (c *Child) Ending() string { return c.Exit().String() }

// Describe returns attributes for a log: the process's name, the job's id, and
// the machine.
func (c *Child) Describe() []any {
	what := []any{"worker", c.Name(), "id", c.job.ID()}
	if at := c.job.Host(); at != "" { // the job has a machine
		what = append(what, "host", at)
	}
	return what
}

// Name is the name that the process was started with.
func (c *Child) Name() string { return c.spec.Name }

// Job is the backend's job that runs the process.
func (c *Child) Job() backend.Job { return c.job }

// Backend is the name of the backend that runs the process.
func (c *Child) Backend() string { return c.node.Backend.Name() }

// PID is the process id in the process's own namespace.
func (c *Child) PID() int { return c.pid }

// Logs follows the process's output; see backend.Job.
func (c *Child) Logs(ctx context.Context) (io.ReadCloser, error) {
	return c.job.Logs(ctx, true)
}

// Resident is the process's resident memory in bytes, as it last reported it.
func (c *Child) Resident() int64 { return c.resident.Load() }
