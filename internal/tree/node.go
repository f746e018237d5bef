// Package tree starts processes, hands them their work, watches them, and
// connects them to each other.
//
// The processes of a run form a tree. A Node is this process in it. Each process
// that this one has started is a Child: a job of the backend, with a connection
// to it. The process that started this one is its Parent.
package tree

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/transport"
)

// ErrShutdown is the error of starting a process once the node shuts down.
var ErrShutdown = errors.New("fiber: this process is shutting down; nothing can be started any more")

// parallelStarts bounds the starts under way: of a thousand, the first are up
// while the last still wait their turn, without any open files.
const parallelStarts = 32

// clusterStarts is the bound in a cluster, where a start may wait long for room,
// or for an image.
const clusterStarts = 1000

// Node is this process among those of a run.
type Node struct {
	Config      config.Config
	Backend     backend.Backend
	Name        string
	Run         string
	Credentials *transport.Credentials
	Log         *slog.Logger
	Parent      *Parent // nil in the root process

	gpus     *gpus
	slots    chan struct{} // starts under way
	listener listener
	warned   recent // reasons to wait
	hosts    hosts  // machines that are avoided

	cluster bool // the backend finds a machine for each job

	starts     context.Context // of all starts; ends when they are given up and the children are told to end
	stopStarts context.CancelFunc
	names      names
	forwarding sync.WaitGroup // outputs of children that are not passed on completely

	Place  string // in the tree; see routes
	routes routes
	swept  sync.Once

	mu       sync.Mutex
	closed   bool
	children []*Child // that have not ended, as started
	serial   int
	starting sync.WaitGroup
}

// NewRoot makes the node of the root.
func NewRoot(cfg config.Config, b backend.Backend, log *slog.Logger) (*Node, error) {
	credentials, err := transport.NewCredentials()
	if err != nil {
		return nil, err
	}
	var id [6]byte
	rand.Read(id[:])
	n := &Node{Config: cfg, Backend: b, Name: "MainProcess", Run: hex.EncodeToString(id[:]), Credentials: credentials,
		Log: log}
	_, n.cluster = b.(backend.Cluster)
	if !n.cluster {
		n.gpus = newGPUs(localDevices())
	}
	n.prepare()
	return n, nil
}

// NewChild makes the node of a process that parent started.
func NewChild(parent *Parent, b backend.Backend, log *slog.Logger) (*Node, error) {
	credentials := new(transport.Credentials)
	if err := credentials.UnmarshalBinary(parent.Assign.Credentials); err != nil {
		return nil, fmt.Errorf("fiber: the run's credentials: %w", err)
	}
	n := &Node{Config: parent.Assign.Config, Backend: b, Name: parent.Assign.Name, Run: parent.Assign.Run,
		Credentials: credentials, Log: log, Parent: parent, Place: parent.Assign.Place, cluster: parent.Assign.Cluster}
	n.prepare()
	parent.node = n
	return n, nil
}

// prepare makes the node ready to start processes.
func (n *Node) prepare() {
	n.slots = make(chan struct{}, parallelStarts)
	if n.cluster {
		n.slots = make(chan struct{}, clusterStarts)
	}
	n.starts, n.stopStarts = context.WithCancel(context.Background())
}

// TransportOptions returns the options of a connection to another process of the
// run. On a patient connection, silence never counts as death.
func (n *Node) TransportOptions(patient bool) transport.Options {
	o := transport.Options{
		MaxMessage:        int64(n.Config.MaxMessage),
		HeartbeatInterval: n.Config.HeartbeatInterval,
		HeartbeatTimeout:  n.Config.HeartbeatTimeout,
	}
	if patient {
		o.HeartbeatTimeout = -1
	}
	return o
}

// Children lists the processes that this one has started and that have not
// ended, in the order of their start.
func (n *Node) Children() []*Child {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.children)
}

// enter begins a start, or refuses it with ErrShutdown. The caller ends it with
// n.starting.Done.
func (n *Node) enter() (serial int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return 0, ErrShutdown
	}
	n.serial++
	n.starting.Add(1)
	return n.serial, nil
}

// whileStarting returns a ctx that also ends when the node gives up its starts,
// then with the cause ErrShutdown, and the function to give up this one.
func (n *Node) whileStarting(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, giveUp := context.WithCancelCause(ctx)
	off := context.AfterFunc(n.starts, func() { giveUp(ErrShutdown) })
	context.AfterFunc(ctx, func() { off() })
	return ctx, giveUp
}

func (n *Node) add(c *Child) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.children = append(n.children, c)
}

func (n *Node) remove(c *Child) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.children = slices.DeleteFunc(n.children, func(other *Child) bool { return other == c })
}

// Terminate gives up the starts under way and asks every child to end.
func (n *Node) Terminate() {
	n.stopStarts()
	n.each(func(c *Child) { c.announce(); n.signal(c.spec.Name, c.job, backend.Terminate) })
}

// Ending returns a context that ends when this process's children are asked to
// end, since the process does.
func (n *Node) Ending() context.Context { return n.starts }

// Kill gives up the starts under way and ends every child at once.
func (n *Node) Kill() {
	n.stopStarts()
	n.each(func(c *Child) { c.condemn(""); n.signal(c.spec.Name, c.job, backend.Kill) })
}

// each calls do for every child, in parallel, and returns when all calls have.
func (n *Node) each(do func(*Child)) {
	var all sync.WaitGroup
	for _, c := range n.Children() {
		all.Go(func() { do(c) })
	}
	all.Wait()
}

// Shutdown refuses further starts and ends every child: it asks them first, and
// kills those that are left after shutdown_grace or when ctx ends. It returns
// when all have gone.
func (n *Node) Shutdown(ctx context.Context) error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.Terminate()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		n.starting.Wait()
		n.Terminate() // the children that came up just in time
		for _, c := range n.Children() {
			<-c.Done()
		}
	}()
	defer n.close()
	grace, cancel := context.WithTimeout(ctx, n.Config.ShutdownGrace)
	defer cancel()
	select {
	case <-gone:
		return nil
	case <-grace.Done():
	}
	again := time.Tick(killAgain)
	for {
		n.Kill()
		select {
		case <-gone:
			return nil
		case <-again:
		}
	}
}

// closeTimeout bounds the backend's own cleaning up.
const closeTimeout = 20 * time.Second

// close closes the node's listener and its backend.
func (n *Node) close() {
	n.listener.close()
	if b, ok := n.Backend.(backend.Closer); ok {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			n.Log.Warn("fiber: cleaning up failed", "backend", n.Backend.Name(), "error", err)
		}
	}
}

// killAgain is the interval between kills: a process may just have been started.
const killAgain = 100 * time.Millisecond

// Forwarded waits until all output of ended children has been passed on, or until
// ctx ends: the reader of this process's output may be slow.
func (n *Node) Forwarded(ctx context.Context) {
	done := make(chan struct{})
	go func() { n.forwarding.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// launch has the backend run a job of this run. Its output is passed on; tail keeps
// the end of its stderr. If the root has started the process for this one, the root
// passes its output on, and this process does not.
func (n *Node) launch(ctx context.Context, spec backend.JobSpec, tail io.Writer) (backend.Job, error) {
	stdout := &lines{node: n, name: printable(spec.Name)}
	stderr := &lines{node: n, name: stdout.name, tail: tail}
	if _, relayed := n.Backend.(*relay); n.Config.ForwardLogs.Enabled() && !relayed {
		stdout.to, stderr.to = os.Stdout, os.Stderr
	}
	n.forwarding.Add(2) // the backend closes them when the process has written everything
	spec.Run, spec.Executable, spec.Args = n.Run, n.Config.Executable, os.Args[1:]
	spec.Stdout, spec.Stderr = stdout, stderr
	j, err := n.Backend.Launch(ctx, spec)
	if err != nil {
		stdout.Close()
		stderr.Close()
	}
	return j, err
}
