package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

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
	Do deed
	// Name is the name of the process that asks. Each parent on the way puts its
	// child's name before it, so that a process can speak only for itself and for
	// those below it.
	Name string

	// connect
	To       string // the place of the process to connect to
	Listener string // the endpoint of its listener

	GPUs int     // lend
	Spec jobSpec // launch
}

// deed is what a request wants done.
type deed string

// The deeds.
const (
	doConnect deed = "connect" // to a listener; its bytes follow the answer
	doLend    deed = "lend"    // GPUs
	doLaunch  deed = "launch"  // a job: see relay_serve.go
	doCatalog deed = "catalog" // the name of the root's catalog of values
)

// jobSpec is what a process below may say of a backend.JobSpec.
type jobSpec struct {
	Name      string
	Env       []string
	Bootstrap string
	Resources meta.Resources
	Devices   []string
	Avoid     []string
}

// reply answers a request.
type reply struct {
	Failure   string // why it cannot be met
	Permanent bool   // with Failure: another try would fail, too
	Avoided   bool   // it failed with errAvoided
	Over      bool   // connect: the process has ended

	Devices []string // lend
	Catalog []byte   // catalog

	// launch
	Job      string    // the job's id
	Progress *progress // with Job, and as the job comes up
	Data     []byte    // of the job's output
	Ended    bool      // this is the last reply
	Status   backend.ExitStatus
	Tail     string // the end of the job's stderr
}

// refuse answers a request that cannot be met.
func refuse(s net.Conn, err error) {
	r := reply{Failure: err.Error(), Avoided: errors.Is(err, errAvoided)}
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
		r.Failure, r.Permanent = cmp.Or(launch.Why(), r.Failure), launch.Permanent
	}
	wire.Write(s, r)
}

// err returns the error of a request that could not be met. A *backend.LaunchError
// gets its backend and its job from failed.
func (r *reply) err() error {
	switch {
	case r.Avoided:
		return errAvoided
	case r.Over:
		return wire.ErrOver
	case r.Failure != "":
		return &backend.LaunchError{Reason: r.Failure, Permanent: r.Permanent}
	}
	return nil
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
	default:
		err = answer.err()
	}
	if err != nil {
		s.Close()
	}
	return answer, err
}

// ask passes a request up the tree and returns the answer, and the stream for what
// follows. The caller closes the stream.
func (p *Parent) ask(ctx context.Context, r *request) (reply, net.Conn, error) {
	here, there := net.Pipe()
	go p.node.forward(there, p.session(), r)
	answer, err := answered(ctx, here)
	return answer, here, err
}

// Catalog asks the root for the name of its catalog.
func (p *Parent) Catalog(ctx context.Context) ([]byte, error) {
	answer, s, err := p.ask(ctx, &request{Do: doCatalog})
	if err != nil {
		return nil, err
	}
	s.Close()
	return answer.Catalog, nil
}

// forward passes a stream on to the next process on its way, and closes it at the end.
func (n *Node) forward(s net.Conn, way *yamux.Session, r *request) {
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
	n.splice(s, next)
}

// serve serves a stream that the child c has opened, or the parent if c is nil. What
// a process may ask for is decided here, by its parent. heard is called when the
// request has come.
func (n *Node) serve(s net.Conn, c *Child, heard func()) {
	var r request
	err := wire.Read(s, &r)
	heard()
	if err == nil && r.Do == doConnect {
		go n.connect(s, &r) // the end of a child does not wait for it
		return
	}
	defer s.Close()
	if err != nil || c == nil { // a parent asks for nothing else
		return
	}
	r.Name = strings.TrimSuffix(c.spec.Name+"/"+r.Name, "/")
	switch {
	case r.Do == doLend:
		c.lend(s, &r)
	case r.Do == doCatalog && n.Parent == nil:
		catalog, err := n.Catalog()
		if err != nil {
			refuse(s, err)
			return
		}
		wire.Write(s, reply{Catalog: catalog})
	case r.Do == doCatalog:
		n.forward(s, n.Parent.session(), &r)
	case r.Do != doLaunch:
		refuse(s, fmt.Errorf("%w: an unknown request %q", wire.ErrMalformed, r.Do))
	case !c.holds(r.Spec.Devices):
		refuse(s, fmt.Errorf("fiber: the GPUs %v are not lent to %s", r.Spec.Devices, c.spec.Name))
	case n.Parent != nil:
		n.forward(s, n.Parent.session(), &r)
	default:
		n.runJob(s, &r)
	}
}
