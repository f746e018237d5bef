package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// request opens a stream along the tree, and says what the process that has
// opened it wants. The request lasts as long as the stream: a process that closes
// the stream, or ends, no longer wants the answer, and gives back what it was
// lent.
type request struct {
	Do   deed
	From string // the asking process's place, below that of the process that is asked: see stamp
	Name string // the asking process's name, as its parent knows it

	// connect
	To       string // the place of the process to connect to
	Listener string // the endpoint of its listener
	Back     string // the endpoint at which the asking process waits to be dialled

	GPUs   int            // lend
	Spec   jobSpec        // launch
	Within time.Duration  // launch: how long it may take, 0 for no limit
	Job    string         // all else: the job's id
	Signal backend.Signal // signal
	Follow bool           // logs
}

// deed is what a request wants done.
type deed string

// The deeds. The root does those that are about jobs: see jobs.go.
const (
	doConnect deed = "connect" // to a listener; its bytes follow the answer
	doLend    deed = "lend"    // GPUs
	doLaunch  deed = "launch"  // a job; its events and its end follow the answer
	doSignal  deed = "signal"
	doLogs    deed = "logs" // the output follows the answer
	doRemove  deed = "remove"
)

// jobSpec is what a process below may say of a backend.JobSpec.
type jobSpec struct {
	Name      string
	Env       []string
	Bootstrap string
	Resources meta.Resources
	Devices   []string
	NoDevices bool // Devices is empty but not nil
	Avoid     []string
}

// reply answers a request.
type reply struct {
	Failure *failure

	Dialled bool     // connect: the process there dials back, and no bytes follow along the tree
	Devices []string // lend
	Job     string   // launch: the job's id
	Host    string   // with Job, and with each event: the job's machine
	Event   backend.Event
	Status  backend.ExitStatus // after the last event
	Tail    []byte             // with Status: the end of the job's stderr
	Data    []byte             // logs: empty at the end
}

// failure is an error that can travel.
type failure struct {
	Reason   string
	Canceled bool
	Deadline bool
	Avoided  bool // the error is errAvoided

	Launch    bool // the error is a *backend.LaunchError
	Backend   string
	Job       string
	Permanent bool
}

func failureOf(err error) *failure {
	f := &failure{Reason: err.Error(), Canceled: errors.Is(err, context.Canceled), Deadline: errors.Is(err, context.DeadlineExceeded),
		Avoided: errors.Is(err, errAvoided)}
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
		f.Launch, f.Backend, f.Job, f.Reason, f.Permanent = true, launch.Backend, launch.Job, launch.Reason, launch.Permanent
		if launch.Err != nil {
			f.Reason = strings.TrimPrefix(f.Reason+": "+strings.TrimPrefix(launch.Err.Error(), "fiber: "), ": ")
		}
	}
	return f
}

func (f *failure) err() error {
	var cause error
	switch {
	case f.Avoided:
		return errAvoided
	case f.Canceled:
		cause = context.Canceled
	case f.Deadline:
		cause = context.DeadlineExceeded
	}
	switch {
	case f.Launch && cause != nil:
		return &backend.LaunchError{Backend: f.Backend, Job: f.Job, Err: cause, Permanent: f.Permanent}
	case f.Launch:
		return &backend.LaunchError{Backend: f.Backend, Job: f.Job, Reason: f.Reason, Permanent: f.Permanent}
	case cause != nil:
		return cause
	}
	return errors.New(f.Reason)
}

// errGone reports a stream that has ended without an answer.
var errGone = errors.New("the process is gone")

// answered waits for an answer to a request. After an error the stream is closed.
func answered(ctx context.Context, s net.Conn) (answer reply, err error) {
	stop := context.AfterFunc(ctx, func() { s.Close() })
	err = wire.Read(s, &answer)
	switch {
	case !stop():
		err = ctx.Err()
	case err != nil:
		err = errGone
	case answer.Failure != nil:
		err = answer.Failure.err()
	}
	if err != nil {
		s.Close()
	}
	return answer, err
}

// refuse answers a request that cannot be met.
func refuse(s net.Conn, err error) { wire.Write(s, reply{Failure: failureOf(err)}) }

// whileOpen returns a context that ends when the process that asks closes the stream,
// on which it sends nothing after its request. The stream is then closed here, too,
// which wakes a goroutine that writes to it.
func whileOpen(s net.Conn) context.Context {
	ctx, closed := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, s)
		closed()
		s.Close()
	}()
	return ctx
}

// ask passes a request up the tree and returns the answer, and the stream for what
// follows. The caller closes the stream.
func (p *Parent) ask(ctx context.Context, r *request) (reply, net.Conn, error) {
	here, there := net.Pipe()
	go forward(there, p.session(), r)
	answer, err := answered(ctx, here)
	if err == errGone && p.conn.Err() != nil {
		err = p.conn.Err()
	}
	return answer, here, err
}

// forward passes a stream on to the next process on its way, and closes it at the end.
func forward(s net.Conn, way *yamux.Session, r *request) {
	defer s.Close()
	if way == nil {
		return
	}
	next, err := way.Open()
	if err != nil {
		return
	}
	if wire.Write(next, r) != nil {
		next.Close()
		return
	}
	splice(s, next)
}

// serve serves a stream that the child c has opened, or the parent if c is nil. What
// a process may ask for is decided here, by its parent.
func (n *Node) serve(s net.Conn, c *Child) {
	var r request
	err := wire.Read(s, &r)
	if err == nil && r.Do == doConnect {
		go n.connect(s, &r) // the end of a child does not wait for it
		return
	}
	defer s.Close()
	if err != nil || c == nil { // a parent asks for nothing else
		return
	}
	c.stamp(&r)
	switch {
	case r.Do == doLend:
		c.lend(s, &r)
	case r.Do == doLaunch && !c.holds(r.Spec.Devices):
		refuse(s, fmt.Errorf("fiber: the GPUs %v are not lent to %s", r.Spec.Devices, c.spec.Name))
	case n.Parent != nil:
		forward(s, n.Parent.session(), &r)
	case r.Do == doLaunch:
		n.runJob(s, &r)
	default:
		n.serveJob(s, &r)
	}
}

// stamp writes into a request which child it comes from. A process that asks leaves
// From and Name empty; each parent on the way puts its child in front of From. A
// process can therefore speak only for itself and for the processes below it.
func (c *Child) stamp(r *request) {
	if !strings.HasPrefix(r.From, "/") { // the child's own request
		r.From, r.Name = "", c.spec.Name
	}
	r.From = strings.TrimPrefix(c.place, c.node.Place) + r.From
}
