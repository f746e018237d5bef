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

// request stands at the head of a stream along the tree: what the process that
// has opened it wants. That is wanted for as long as the stream is open: whoever
// closes it, or ends, has no use for the answer and gives back what it was given.
type request struct {
	Do   deed
	From string // the place of who asks, below that of who is asked: see stamp
	Name string // of who asks, as its parent knows it

	// connect
	To       string // the place of the process that is asked
	Listener string // the endpoint there that is wanted
	Back     string // where the process that asks waits to be dialled

	GPUs   int            // lend
	Spec   jobSpec        // launch
	Within time.Duration  // launch: how long it may take, 0 for ever
	Job    string         // all else: its id
	Signal backend.Signal // signal
	Follow bool           // logs
}

// deed is what is wanted.
type deed string

// The deeds. The root does those for jobs: see jobs.go.
const (
	doConnect deed = "connect" // to one of your listeners; bytes follow
	doLend    deed = "lend"    // GPUs
	doLaunch  deed = "launch"  // a job; its events and its end follow
	doSignal  deed = "signal"
	doLogs    deed = "logs" // which follow
	doRemove  deed = "remove"
)

// jobSpec is what a process below may say of a backend.JobSpec.
type jobSpec struct {
	Name      string
	Env       []string
	Bootstrap string
	Resources meta.Resources
	Devices   []string
	NoDevices bool // Devices is empty and not nil
	Avoid     []string
}

// reply is what comes of a request.
type reply struct {
	Failure *failure

	Dialled bool     // connect: from there, and the bytes do not come along the tree
	Devices []string // lend
	Job     string   // launch: the id of the job
	Host    string   // then, and with each event: its machine
	Event   backend.Event
	Status  backend.ExitStatus // behind the last event
	Tail    []byte             // with it: the end of its stderr
	Data    []byte             // logs: none at the end
}

// failure is an error that can travel.
type failure struct {
	Reason   string
	Canceled bool
	Deadline bool
	Avoided  bool // it is errAvoided

	Launch    bool // it is a *backend.LaunchError
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
			f.Reason = strings.TrimPrefix(f.Reason+": "+launch.Err.Error(), ": ")
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

// errGone is a stream that has ended without an answer.
var errGone = errors.New("the process is not there any more")

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

// whileOpen is a context that ends when the process that asks closes the stream. It
// says nothing more on it, and reads nothing either: whoever writes then is woken.
func whileOpen(s net.Conn) context.Context {
	ctx, closed := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, s)
		closed()
		s.Close()
	}()
	return ctx
}

// ask passes a request up the tree and returns the answer, with the stream for what
// follows. The caller closes it.
func (p *Parent) ask(ctx context.Context, r *request) (reply, net.Conn, error) {
	here, there := net.Pipe()
	go forward(there, p.session(), r)
	answer, err := answered(ctx, here)
	if err == errGone && p.conn.Err() != nil {
		err = p.conn.Err()
	}
	return answer, here, err
}

// forward leads a stream to the next process on its way.
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

// serve does what a child wants that has opened a stream, or, nil, the parent. What
// a process may ask for is decided here, by its parent.
func (n *Node) serve(s net.Conn, c *Child) {
	var r request
	err := wire.Read(s, &r)
	if err == nil && r.Do == doConnect {
		go n.connect(s, &r) // the end of a child does not wait for it
		return
	}
	defer s.Close()
	if err != nil || c == nil { // nothing else comes from above
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

// stamp says in a request which child it comes from. A process that asks leaves From
// and Name empty; each parent on the way puts its child in front of From, so that a
// process can speak for itself and for those below it, and for no others.
func (c *Child) stamp(r *request) {
	if !strings.HasPrefix(r.From, "/") { // its own
		r.From, r.Name = "", c.spec.Name
	}
	r.From = strings.TrimPrefix(c.place, c.node.Place) + r.From
}
