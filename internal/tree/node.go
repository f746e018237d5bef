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
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/logger"
	"github.com/fiber-go/fiber/internal/observe"
	"github.com/fiber-go/fiber/internal/shm"
	"github.com/fiber-go/fiber/internal/wire"
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
	Events      *observe.Hub
	Segments    *shm.Store // what this process shares with others of its machine; nil if there are none

	// Catalog returns, in the root, the name of its catalog of values. It is set before the first process is started.
	Catalog func() ([]byte, error)

	log           *slog.Logger // Log without those who watch
	machineMemory func() int64 // bytes

	gpus     lock.Once[gpus]
	slots    chan struct{} // starts under way
	listener listener
	warned   recent // reasons to wait
	hosts    hosts  // machines that are avoided

	places bool // the backend finds a machine for each job
	avoids bool // it can be told which ones to avoid

	starts     context.Context // of all starts; ends when they are given up and the children are told to end
	stopStarts context.CancelFunc
	names      names
	forwarding sync.WaitGroup // outputs of children that are not passed on completely

	Place  string // in the tree; see routes
	routes routes
	swept  sync.Once
	told   sync.Once // which variables stay here

	mu       sync.Mutex
	closed   bool
	children []*Child // that have not ended, as started
	serial   int
	starting sync.WaitGroup
	noted    sync.Map // what else the end of this process waits for: a *string, in words
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
	_, n.places = b.(backend.Placer)
	_, n.avoids = b.(backend.Avoider)
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
		Credentials: credentials, Log: log, Parent: parent, Place: parent.Assign.Place, places: parent.Assign.Places, avoids: parent.Assign.Avoids}
	n.prepare()
	parent.node = n
	return n, nil
}

// prepare makes the node ready to start processes.
func (n *Node) prepare() {
	n.machineMemory = sync.OnceValue(shm.Memory)
	n.Segments = n.newSegments()
	n.slots = make(chan struct{}, parallelStarts)
	if n.places {
		n.slots = make(chan struct{}, clusterStarts)
	}
	n.starts, n.stopStarts = context.WithCancel(context.Background())
	n.Events = observe.New(n.Name, n.observe)
	n.log, n.Log = n.Log, logger.Watched(n.Log, n.Events)
}

// observe tells the processes below whether to send what happens in them.
func (n *Node) observe(on bool) {
	for _, c := range n.Children() {
		c.observe(on)
	}
}

// TransportOptions returns the options of a connection to another process of the
// run. On a patient connection, silence never counts as death.
func (n *Node) TransportOptions(patient bool) transport.Options {
	o := transport.Options{
		MaxMessage:        int64(n.Config.MaxMessage),
		HeartbeatInterval: n.Config.HeartbeatInterval,
		HeartbeatTimeout:  n.Config.HeartbeatTimeout,
		Lend:              true,
	}
	if patient {
		o.HeartbeatTimeout = -1
	}
	return o
}

// logged takes a log message of a process below this one: to the root, or there into its log.
func (n *Node) logged(m wire.Log) {
	if n.Parent != nil {
		n.Parent.Post(wire.MustPack(wire.KindLog, m)...)
		return
	}
	n.log.Handler().Handle(context.Background(), logger.Record(m)) // who watches has heard of it
}

// Children lists the processes that this one has started and that have not
// ended, in the order of their start.
func (n *Node) Children() []*Child {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.children)
}

// enter begins a start, or what else Shutdown waits for until left is called. It
// returns the start's number, or ErrShutdown.
func (n *Node) enter(what string) (serial int, left func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return 0, nil, ErrShutdown
	}
	n.serial++
	n.starting.Add(1)
	noted := n.note(what)
	return n.serial, func() { noted(); n.starting.Done() }, nil
}

// note makes Waits name something until done is called.
func (n *Node) note(what string) (done func()) {
	n.noted.Store(&what, nil)
	return func() { n.noted.Delete(&what) }
}

// waitsShown is how many names Waits lists.
const waitsShown = 8

// Waits says in words what the end of this process waits for: children, with
// their functions, starts and removals. It returns "" if there is nothing.
func (n *Node) Waits() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, c := range n.children {
		name := c.spec.Name
		if c.spec.Assign.Role == wire.RoleFunction {
			name += " (" + c.spec.Assign.Func + ")"
		}
		all = append(all, name)
	}
	for what := range n.noted.Range {
		all = append(all, *what.(*string))
	}
	slices.Sort(all)
	if more := len(all) - waitsShown; more > 0 {
		all = append(all[:waitsShown], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
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
	n.each(func(c *Child) { c.announce(); c.job.signal(backend.Terminate) })
}

// Ending returns a context that ends when this process's children are asked to
// end, since the process does.
func (n *Node) Ending() context.Context { return n.starts }

// Kill gives up the starts under way and ends every child at once.
func (n *Node) Kill() {
	n.stopStarts()
	n.each(func(c *Child) { c.condemn(""); c.job.signal(backend.Kill) })
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
	n.refuse()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		n.Terminate()
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
		killed := make(chan struct{})
		go func() { // an engine may not answer, while the children end
			defer close(killed)
			n.Kill()
		}()
		select {
		case <-gone:
			return nil
		case <-killed:
		}
		select {
		case <-gone:
			return nil
		case <-again:
		}
	}
}

// refuse refuses further starts.
func (n *Node) refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}

// abandonTime bounds what Abandon asks of an engine.
const abandonTime = time.Second

// Abandon refuses further starts, gives up those under way, kills every child and
// has the backend remove what there is, all at once. It does not wait for their
// ends, and for an engine's answers a second at most.
func (n *Node) Abandon() {
	n.refuse()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		var both sync.WaitGroup
		both.Go(n.Kill)
		both.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), abandonTime/2) // the rest is for what Close does at last
			defer cancel()
			n.cleanUp(ctx)
		})
		both.Wait()
	}()
	select {
	case <-asked:
	case <-time.After(abandonTime):
		n.Log.Warn("fiber: what is left of the run ends by itself, and the next run removes it", "backend", n.Backend.Name())
	}
}

// closeTimeout bounds the backend's own cleaning up.
const closeTimeout = 20 * time.Second

// close closes the node's listener and its backend.
func (n *Node) close() {
	n.listener.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := n.cleanUp(ctx); err != nil {
		n.Log.Warn("fiber: cleaning up failed", "backend", n.Backend.Name(), "error", err)
	}
}

// cleanUp has the backend remove what is left of the run.
func (n *Node) cleanUp(ctx context.Context) error {
	b, ok := n.Backend.(backend.Closer)
	if !ok {
		return nil
	}
	defer n.note("the removal of what is left on " + n.Backend.Name())()
	return b.Close(ctx)
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
