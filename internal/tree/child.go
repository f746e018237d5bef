package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/event"
	"github.com/fiber-go/fiber/internal/turn"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

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
	node  *Node
	spec  Spec
	place string // in the tree; see routes

	childJob
	link
	loans

	exit Exit          // of whoever reads, until done is closed
	done chan struct{} // closed when the process has ended and all it said has been read
}

func newChild(n *Node, spec Spec, place string) *Child {
	return &Child{node: n, spec: spec, place: place, loans: loans{release: func() {}}, link: link{gone: make(chan struct{})},
		childJob: childJob{ended: make(chan struct{}), reaped: make(chan struct{})}, done: make(chan struct{})}
}

// watch reads what the child says, and waits for the job's end, in the background.
func (c *Child) watch() {
	go func() {
		<-c.ended
		c.hangUp()
	}()
	c.reader = turn.New(c.conn, c.handle, c.spec.Handled, c.spec.Idle, c.finish)
	go c.reader.Serve()
}

// finish cleans up after a child whose connection has ended.
func (c *Child) finish(readErr error) {
	c.conn.Close()
	c.streams.close()
	acquit := func() {}
	if !c.expected.Load() { // its machine is to blame until the job's end says otherwise
		acquit = c.node.strike(c.job.Host())
	}
	killed := true
	switch {
	case errors.Is(readErr, transport.ErrSilent):
		c.Kill(fmt.Sprintf("nothing heard from it for %v (heartbeat_timeout)", c.node.Config.HeartbeatTimeout))
	case errors.Is(readErr, wire.ErrMalformed), errors.Is(readErr, transport.ErrProtocol), errors.As(readErr, new(*transport.SizeError)):
		c.Kill("it sent an invalid message: " + readErr.Error())
	default:
		killed = false
	}
	close(c.gone)
	status, byItself := c.reap(killed)
	if byItself {
		acquit()
	}
	close(c.reaped)
	c.streams.serving.Wait()
	c.release()
	c.childJob.mu.Lock()
	why := c.reason
	c.childJob.mu.Unlock()
	status.Reason = cmp.Or(why, status.Reason)
	c.exit.ExitStatus, c.exit.Stderr = status, c.job.lastLines()
	c.signals.Wait()
	c.job.remove(c.grace())
	c.node.remove(c)
	c.spec.Keep = nil
	c.node.Log.Debug("fiber: ended", "process", c.spec.Name, "id", c.job.ID(), "how", c.exit.String())
	if c.node.Events.On() {
		c.node.Events.Tell(c.ending(why != ""))
	}
	close(c.done)
}

// reap waits for the job's end. A job that outlives its connection by more than its
// grace is killed, unless it was killed before. byItself says that the job ended
// without that.
func (c *Child) reap(killed bool) (_ backend.ExitStatus, byItself bool) {
	for {
		select {
		case <-c.ended:
			return c.status, !killed
		case <-time.After(c.grace()):
		}
		if killed {
			return backend.ExitStatus{Code: -1, Reason: "it did not end within " + c.grace().String() + " of being killed"}, false
		}
		c.Kill("its connection ended but it did not")
		killed = true
	}
}

// ending is how the process ended, for those who watch. One that was told to end has ended as it should, unless it was killed for a
// reason.
func (c *Child) ending(killed bool) event.ProcessEnded {
	e := event.ProcessEnded{Name: c.spec.Name, Role: string(c.spec.Assign.Role), ID: c.job.ID(), How: c.exit.String()}
	if e.OK = c.exit.Err == nil && (c.exit.Code == 0 || c.expected.Load() && !killed); !e.OK {
		e.Words = c.exit.Stderr
	}
	return e
}

// observe tells the process whether to send what happens in it.
func (c *Child) observe(on bool) {
	c.conn.Post(wire.MustPack(wire.KindObserve, wire.Observe{On: on})...)
}

// Expect notes that the child was sent a request whose answer no caller waits for
// in Wait.
func (c *Child) Expect() { c.reader.Expect() }

// Wait waits until done is closed, or returns the ctx's error. The calling
// goroutine may read and handle what the child says meanwhile; see turn.Reader.
func (c *Child) Wait(ctx context.Context, done <-chan struct{}) error {
	_, err := turn.Wait(ctx, c.reader, done)
	return err
}

// handle handles a message of the child's.
func (c *Child) handle(frames [][]byte) error {
	switch kind := wire.KindOf(frames); kind {
	case wire.KindDone:
		var done wire.Done
		if err := wire.Unpack(frames, &done); err != nil {
			return err
		}
		c.exit.Err, c.exit.Returned = done.Err, true
		c.expected.Store(true)
		if c.spec.Handle != nil {
			c.spec.Handle(kind, frames)
		}
	case wire.KindBye:
		if c.bye {
			return fmt.Errorf("%w: a second goodbye", wire.ErrMalformed)
		}
		c.bye = true
		c.expected.Store(true)
		return c.conn.Post(wire.MustPack(wire.KindBye, nil)...)
	case wire.KindStream:
		c.session()
		return c.streams.carrier.put(frames[1:])
	case wire.KindStatus:
		var status wire.Status
		if err := wire.Unpack(frames, &status); err != nil {
			return err
		}
		c.memory.Store(&status)
		if c.node.Events.On() {
			sent, received := c.conn.Traffic()
			c.node.Events.Tell(event.ProcessStatus{Name: c.spec.Name, Resident: status.Resident, Shared: status.Shared, CPU: status.CPU,
				Sent: sent, Received: received})
		}
	case wire.KindEvents:
		events, err := wire.UnpackEvents(frames)
		if err != nil {
			return err
		}
		c.node.Events.Pass(events)
	case wire.KindLog:
		var message wire.Log
		if err := wire.Unpack(frames, &message); err != nil {
			return err
		}
		if c.spec.Handled != nil {
			c.spec.Handled() // the user's handler, which is next, may take its time
		}
		c.node.logged(message)
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
	return c.streams.over(c.conn, yamux.Server, func(s net.Conn, heard func()) { c.node.serve(s, c, heard) })
}

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
	c.expected.Store(true)
	c.conn.Post(wire.MustPack(wire.KindTerminate, nil)...)
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
	c.expected.Store(true)
	c.childJob.mu.Lock()
	first := !c.killed
	c.killed, c.reason = true, cmp.Or(c.reason, reason)
	c.childJob.mu.Unlock()
	if first {
		c.conn.Post(wire.MustPack(wire.KindKill, nil)...)
		go c.hangUp()
	}
}

// Done is closed when the process has ended and all it said has been read.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit returns how the process ended. It is valid only after Done.
func (c *Child) Exit() Exit { return c.exit }

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
func (c *Child) Job() backend.Job { return c.job.Job }

// Backend is the name of the backend that runs the process.
func (c *Child) Backend() string { return c.node.Backend.Name() }

// Logs follows the process's output; see backend.Job.
func (c *Child) Logs(ctx context.Context) (io.ReadCloser, error) {
	return c.job.Logs(ctx, true)
}
