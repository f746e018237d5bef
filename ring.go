package fiber

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/ring"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// RingFunc is a function that the processes of a ring run. Create it with
// RegisterRing.
type RingFunc[In any] struct{ entry *ringEntry }

// ringEntry is a RingFunc with its type erased.
type ringEntry struct {
	name      string
	resources meta.Resources
	init      func(context.Context, *RingNode) error
	run       func(context.Context, *RingNode, [][]byte) error
	late      error // as of a Func
}

// RegisterRing makes a function runnable by the processes of a ring, with the
// resources that each of them needs. Like Register, call it while package
// variables are initialised; it panics for the same reasons.
//
// In each process init runs first, unless it is nil. run begins when init has
// returned nil in all processes. Both can use the connections to the
// neighbours. When the ring has failed, their context ends, and context.Cause
// returns the reason.
func RegisterRing[In any](name string, init func(ctx context.Context, node *RingNode) error,
	run func(ctx context.Context, node *RingNode, in In) error, m ...meta.Option) *RingFunc[In] {
	where := callerLine()
	bad := func(reason string) { panic(fmt.Sprintf("%s: fiber.RegisterRing(%q): %s", where, name, reason)) }
	if run == nil {
		bad("the function is nil")
	}
	resources, err := meta.Collect(m...)
	if err != nil {
		bad(err.Error())
	}
	entry := &ringEntry{name: name, resources: resources, init: init,
		run: func(ctx context.Context, node *RingNode, value [][]byte) error {
			var in In
			if err := codec.Unmarshal(value, &in); err != nil {
				return err
			}
			return run(ctx, node, in)
		}}
	entry.late = register(registry.Ring, name, "("+signature[In]("its argument", bad)+")", where, entry)
	return &RingFunc[In]{entry}
}

// Name returns the name that the function is registered under.
func (f *RingFunc[In]) Name() string {
	if !f.registered() {
		return ""
	}
	return f.entry.name
}

// Resources returns what each process of the ring needs.
func (f *RingFunc[In]) Resources() meta.Resources {
	if !f.registered() {
		return meta.Resources{}
	}
	return f.entry.resources
}

func (f *RingFunc[In]) registered() bool { return f != nil && f.entry != nil }

// Ring is a number of processes, its ranks, that run one function together.
// Create it with NewRing. Each rank is connected to the ranks before and behind
// it. They exchange messages and run collectives without their parent.
type Ring[In any] struct {
	opts ringOptions
	size int
	fn   *RingFunc[In]
	err  error // a mistake in the arguments of NewRing
}

type ringOptions struct {
	name      string
	resources meta.Resources // of each rank
}

var rings atomic.Int64

// NewRing makes a ring of size processes that will run a function. Run starts
// them, and reports mistakes in NewRing's arguments.
func NewRing[In any](size int, fn *RingFunc[In], opts ...RingOption) *Ring[In] {
	r := &Ring[In]{opts: ringOptions{fmt.Sprintf("Ring-%d", rings.Add(1)), fn.Resources()}, size: size, fn: fn}
	if r.err = configured("NewRing", &r.opts, opts, RingOption.ring); r.err != nil {
		return r
	}
	switch {
	case size < 1:
		r.err = fmt.Errorf("fiber: NewRing(%d): the size must be at least 1", size)
	case !fn.registered():
		r.err = errEmpty("RingFunc")
	case r.opts.resources.GPU > math.MaxInt/size:
		r.err = fmt.Errorf("fiber: NewRing(%d): %s has meta.GPU(%d): these are too many GPUs", size, fn.Name(), r.opts.resources.GPU)
	default:
		r.err = fn.entry.late
	}
	return r
}

// Name returns the ring's name. Its processes are called name/rank-0 and so on.
func (r *Ring[In]) Name() string {
	if r == nil {
		return ""
	}
	return r.opts.name
}

// Size returns the number of ranks.
func (r *Ring[In]) Size() int {
	if r == nil {
		return 0
	}
	return r.size
}

// Run starts the processes, passes in to each of them, and returns when all
// have ended. It returns nil if all functions have returned nil. It may be
// called again and then starts new processes. On this machine it takes the GPUs
// of all ranks at once, and waits until there are enough.
//
// A rank fails when its init or run function returns an error or panics, when
// its process dies or cannot be started, or when a collective goes wrong. The
// whole ring has then failed: in the other ranks, waiting and later operations
// return a *RingError with the failed rank and its error, and the contexts end.
// Ranks that go on for longer than cancel_grace are killed. Run returns the
// same *RingError, which wraps a *RemoteError, *WorkerLostError, *LaunchError
// or *MismatchError.
//
// A rank's process ends when its function and those of both its neighbours have
// returned.
//
// When ctx ends, all ranks are ended in the same way, and Run returns
// ctx.Err(). When Run returns, all of its processes have ended.
func (r *Ring[In]) Run(ctx context.Context, in In) error {
	if r.Name() == "" {
		return errEmpty("Ring")
	}
	if r.err != nil {
		return r.err
	}
	proc, err := running()
	if err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return err
	}
	value, names, err := marshalHere(ctx, in)
	if err == nil {
		err = proc.fits(value)
	}
	if err != nil {
		return errorf("fiber: the argument of %s: %w", r.fn.Name(), err)
	}
	if len(names.ends) > 0 {
		return fmt.Errorf("fiber: the argument of %s: all ranks receive it, but the end of a pipe can be in one process only; use a SimpleQueue, or the ranks' neighbours", r.fn.Name())
	}
	err = ring.Run(ctx, proc.node, ring.Spec{Name: r.opts.name, Size: r.size, Func: r.fn.Name(), Resources: r.opts.resources, Value: value, Keep: in,
		Lost: func(c *tree.Child) error { return workerLost(c, r.fn.Name(), 1, 1) }, Flatten: func(err error) *wire.Error { return flatten("", err) }})
	var failed *ring.Failure
	if !errors.As(err, &failed) {
		return err
	}
	return &RingError{Ring: r.opts.name, Rank: failed.Rank, Err: fromEngine(failed.Err)}
}

// RingError says that a ring has failed: which rank failed first, and why.
type RingError struct {
	Ring string // the ring's name
	Rank int    // -1 if no rank failed, but the ring was ended by the process that ran it
	Err  error  // a *RemoteError, *WorkerLostError, *LaunchError, *MismatchError or a context's error
}

// Error returns one line.
func (e *RingError) Error() string {
	why := strings.TrimPrefix(fmt.Sprint(e.Err), "fiber: ")
	if e.Rank < 0 {
		return fmt.Sprintf("fiber: %s was ended: %s", e.Ring, why)
	}
	return fmt.Sprintf("fiber: %s failed at rank %d: %s", e.Ring, e.Rank, why)
}

// Unwrap returns the failed rank's error.
func (e *RingError) Unwrap() error { return e.Err }

// Format prints the error; %+v prints all that it says.
func (e *RingError) Format(s fmt.State, verb rune) { format(e, s, verb) }

// RingNode is a rank, seen from its own process. The functions of a ring
// receive it as an argument. It cannot travel. Its methods may be called from
// many goroutines.
type RingNode struct{ node *ring.Node }

// Rank returns this process's number in the ring, from 0 to Size()-1.
func (n *RingNode) Rank() int {
	if n.empty() {
		return -1
	}
	return n.node.Rank()
}

// Size returns the number of ranks.
func (n *RingNode) Size() int {
	if n.empty() {
		return 0
	}
	return n.node.Size()
}

func (n *RingNode) empty() bool { return n == nil || n.node == nil }

// Member says where a rank is.
type Member struct {
	Rank int    // its number in the ring
	Name string // of its process
	PID  int    // in its own operating system
	Host string // where its process runs

	IP        string // where other ranks reach its process
	Interface string // of the network with this address
	// Port is a free TCP port there, for anything that the rank wants to serve. On
	// Linux it is reserved for the rank until its process ends; a program that
	// listens on it must set SO_REUSEADDR, as package net does.
	Port int
}

// Members returns all ranks, in order.
func (n *RingNode) Members() []Member {
	if n.empty() {
		return nil
	}
	all := make([]Member, len(n.node.Members))
	for i, m := range n.node.Members {
		all[i] = Member{Rank: m.Rank, Name: m.Name, PID: m.PID, Host: m.Host, IP: m.IP, Interface: m.Interface, Port: m.Port}
	}
	return all
}

// TorchEnv returns the environment by which torch.distributed and similar
// libraries find each other, as KEY=value for an exec.Cmd's Env: MASTER_ADDR
// and MASTER_PORT (the IP and port of rank 0), RANK, WORLD_SIZE, and
// GLOO_SOCKET_IFNAME (the network interface of this process).
func (n *RingNode) TorchEnv() []string {
	if n.empty() {
		return nil
	}
	zero, me := n.node.Members[0], n.node.Members[n.Rank()]
	return []string{
		"MASTER_ADDR=" + zero.IP,
		"MASTER_PORT=" + strconv.Itoa(zero.Port),
		"RANK=" + strconv.Itoa(n.Rank()),
		"WORLD_SIZE=" + strconv.Itoa(n.Size()),
		"GLOO_SOCKET_IFNAME=" + me.Interface,
	}
}

// Left returns the neighbour before this rank: rank-1, or the last rank for
// rank 0. In a ring of one it is this rank itself.
func (n *RingNode) Left() *Neighbour {
	if n.empty() {
		return new(Neighbour)
	}
	return &Neighbour{n.node.Left}
}

// Right returns the neighbour behind this rank: rank+1, or rank 0 for the last
// rank.
func (n *RingNode) Right() *Neighbour {
	if n.empty() {
		return new(Neighbour)
	}
	return &Neighbour{n.node.Right}
}

// Neighbour is one of the two ranks that a rank exchanges messages with. A
// message that is sent to the right is received there from the left, and vice
// versa. Messages arrive in order, and collectives do not interfere with them.
type Neighbour struct{ n *ring.Neighbour }

// Rank returns the neighbour's rank.
func (b *Neighbour) Rank() int {
	if b.empty() {
		return -1
	}
	return b.n.Rank
}

func (b *Neighbour) empty() bool { return b == nil || b.n == nil }

// Send sends a value. It returns when the value has left and may be changed. It
// blocks while the neighbour has not received earlier messages. One message of
// any size, or smaller ones of 16 MiB together, can wait at the neighbour, so
// all ranks may send first and receive afterwards. Each message counts as at
// least 128 bytes. Others can be on the way: what a socket holds and, between two
// processes of a machine, 32 MiB of messages of 256 KiB or more.
//
// The error is ctx.Err() when ctx ends, a *RingError when the ring has failed, an
// *EncodeError, or an error that says that the neighbour's function has returned.
// If a part of the value had left when ctx ended, the error is ErrUnknownOutcome,
// too, and the value arrives unless the ring fails.
func (b *Neighbour) Send(ctx context.Context, v any) error {
	switch {
	case b.empty():
		return errEmpty("Neighbour")
	case ctx == nil:
		return errNilContext
	}
	frames, err := marshalLingering(ctx, v)
	if err != nil {
		return errorf("fiber: a message to rank %d: %w", b.Rank(), oneValue(err))
	}
	if err := b.n.Send(ctx, frames); err != nil {
		return messageError("to", b.Rank(), err)
	}
	return nil
}

// Recv waits for the neighbour's next value and stores it where ptr points; the
// type must be the one that was sent. A value that has come is returned before
// any error. The error is ctx.Err() when ctx ends, a *RingError when the ring
// has failed, an *EncodeError when the types differ, or an error that says that
// the neighbour's function has returned.
func (b *Neighbour) Recv(ctx context.Context, ptr any) error {
	switch {
	case b.empty():
		return errEmpty("Neighbour")
	case ctx == nil:
		return errNilContext
	}
	frames, err := b.n.Recv(ctx)
	if err != nil {
		return messageError("from", b.Rank(), err)
	}
	if err := codec.Unmarshal(frames, ptr); err != nil {
		return messageError("from", b.Rank(), oneValue(err))
	}
	return nil
}

// messageError adds which message it was, unless the error says more.
func messageError(way string, rank int, err error) error {
	if failed := (*RingError)(nil); errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if large := tooLarge(err); large != nil {
		err = large
	}
	return errorf("fiber: a message %s rank %d: %w", way, rank, fromEngine(err))
}

// runRing runs this process as a rank of a ring.
func runRing(ctx context.Context, parent *tree.Parent, stop *stopping) int {
	a := &parent.Assign
	entry, ok := registry.Find(registry.Ring, a.Func).(*ringEntry)
	if !ok {
		return finish(parent, flatten(a.Func, errors.New("this ring function is not registered in this process")))
	}
	proc := here()
	name := a.Name[:strings.LastIndexByte(a.Name, '/')] // of Ring-1/rank-0
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	node := ring.New(ring.Options{Name: name, Rank: a.Rank, Size: a.Size, MaxMessage: int64(a.Config.MaxMessage), Patience: a.Config.StartTimeout,
		Post: parent.Post, Listen: proc.node.Listen, Dial: proc.node.Dial, Failed: cancel,
		Break: func(err error) error {
			if !stop.wasTold() {
				parent.Post(wire.MustPack(wire.KindBroken, wire.Broken{Rank: a.Rank, Err: flatten(a.Func, err)})...)
			}
			return &RingError{Ring: name, Rank: a.Rank, Err: err}
		}})
	go obeyParent(parent, func(kind wire.Kind, frames [][]byte) {
		switch kind {
		case wire.KindMembers:
			var m wire.Members
			if wire.Unpack(frames, &m) == nil {
				node.Meet(m.All)
			}
		case wire.KindBroken:
			var b wire.Broken
			if wire.Unpack(frames, &b) == nil && b.Err != nil {
				node.Fail(&RingError{Ring: name, Rank: b.Rank, Err: unflatten(b.Err)})
			}
		}
	})
	failure := runRank(ctx, node, entry, parent.Value)
	code := 0
	if !stop.wasTold() { // else the signal says what happened
		code = finish(parent, failure)
	}
	if failure != nil {
		node.Fail(ErrClosed) // the neighbours learn from the parent why
	}
	node.Close()
	leave(context.Background())
	return code
}

// runRank connects a rank to the other ranks and runs its functions.
func runRank(ctx context.Context, node *ring.Node, entry *ringEntry, value [][]byte) *wire.Error {
	if err := node.Join(ctx); err != nil {
		return flatten(entry.name, err)
	}
	n := &RingNode{node}
	if entry.init != nil {
		if failure := failureOf(entry.name, func() error { return entry.init(ctx, n) }); failure != nil {
			return failure
		}
	}
	if err := node.Do(ctx, ring.Start, 0, 0, ring.Vector{Width: 1}); err != nil {
		return flatten(entry.name, err)
	}
	return failureOf(entry.name, func() error { return entry.run(ctx, n, value) })
}
