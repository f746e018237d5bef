package fiber

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/ring"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// RingFunc is what the processes of a ring run. It is made by RegisterRing.
type RingFunc[In any] struct{ entry *ringEntry }

// ringEntry is a RingFunc with its type erased.
type ringEntry struct {
	name      string
	resources meta.Resources
	init      func(context.Context, *RingNode) error
	run       func(context.Context, *RingNode, [][]byte) error
}

// RegisterRing makes a function runnable by the processes of a ring, with the
// resources that each of them needs. Like Register it is called while package
// variables are initialised, and panics when something is wrong.
//
// In each process init runs first; it may be nil. When it has returned nil in
// all of them, run begins. Both have the connections to the neighbours. The
// context ends when the ring has failed, and context.Cause then tells why.
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
	in := reflect.TypeFor[In]()
	if err := codec.Check(in); err != nil {
		bad("its argument: " + err.Error())
	}
	entry := &ringEntry{name: name, resources: resources, init: init,
		run: func(ctx context.Context, node *RingNode, value [][]byte) error {
			var ins []In
			if err := codec.Unmarshal(value, &ins); err != nil {
				return err
			}
			if len(ins) != 1 {
				return wire.ErrMalformed
			}
			return run(ctx, node, ins[0])
		}}
	registry.Add(registry.Ring, name, "("+codec.Signature(in)+")", where, entry)
	return &RingFunc[In]{entry}
}

// Name is the name that the function was registered under.
func (f *RingFunc[In]) Name() string { return f.entry.name }

// Resources are what each process of the ring needs.
func (f *RingFunc[In]) Resources() meta.Resources { return f.entry.resources }

// Ring is a number of processes, its ranks, that run one function together.
// Each is connected to the ranks before and behind it, and they exchange
// messages and do collectives without their parent. It is made by NewRing.
type Ring[In any] struct {
	name string
	size int
	fn   *RingFunc[In]
	err  error // of its making
}

var rings atomic.Int64

// NewRing makes a ring of size processes that will run a function. It starts
// nothing. A mistake in the arguments is Run's error.
func NewRing[In any](size int, fn *RingFunc[In]) *Ring[In] {
	r := &Ring[In]{name: fmt.Sprintf("Ring-%d", rings.Add(1)), size: size, fn: fn}
	switch {
	case size < 1:
		r.err = fmt.Errorf("fiber: NewRing(%d): the size must be at least 1", size)
	case fn == nil:
		r.err = errors.New("fiber: NewRing: the function is nil; register it in a package variable with fiber.RegisterRing")
	}
	return r
}

// Name is the ring's name, Ring-1, Ring-2 and so on. Its processes are called
// Ring-1/rank-0 and so on.
func (r *Ring[In]) Name() string { return r.name }

// Size is the number of ranks.
func (r *Ring[In]) Size() int { return r.size }

// Run starts the processes, each of which gets in, and returns when all have
// ended: nil when the functions have all returned nil. It may be called again,
// and starts other processes then. On this machine it takes the GPUs of all ranks
// at once, and waits until there are so many.
//
// When one rank fails, because its init or run function returns an error or
// panics, its process dies or cannot be started, or a collective goes wrong,
// the ring has failed: what the other ranks wait for, and do later, gives a
// *RingError with the failed rank and its error, their contexts end, and those
// that go on for longer than cancel_grace are killed. Run returns the same
// *RingError, which wraps a *RemoteError, *WorkerLostError, *LaunchError or
// *MismatchError.
//
// When ctx ends all ranks are ended in that way, and Run returns ctx.Err().
// Whatever Run returns, none of its processes is left.
func (r *Ring[In]) Run(ctx context.Context, in In) error {
	if r.err != nil {
		return r.err
	}
	proc, err := running()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	value, names, err := marshalHere([]In{in})
	if err != nil {
		return errorf("fiber: the argument of %s: %w", r.fn.Name(), oneValue(err))
	}
	if len(names.ends) > 0 {
		return fmt.Errorf("fiber: the argument of %s: it goes to all ranks, and the end of a pipe can be in one process only; use a SimpleQueue, or the ranks' neighbours", r.fn.Name())
	}
	if err := proc.fits(value); err != nil {
		return errorf("fiber: the argument of %s: %w", r.fn.Name(), err)
	}
	err = ring.Run(ctx, proc.node, ring.Spec{Name: r.name, Size: r.size, Func: r.fn.Name(), Resources: r.fn.Resources(), Value: value, Keep: in,
		Lost:    func(c *tree.Child) error { return workerLost(c, r.fn.Name(), 1, 1) },
		Flatten: func(err error) *wire.Error { return flatten(r.fn.Name(), err) }})
	var failed *ring.Failure
	if !errors.As(err, &failed) {
		return err
	}
	return &RingError{Ring: r.name, Rank: failed.Rank, Err: fromEngine(failed.Err)}
}

// RingError is a ring that has failed: the rank that was the first to fail, and
// how it did.
type RingError struct {
	Ring string
	Rank int   // -1 when none failed: whoever ran the ring does not want it any more
	Err  error // a *RemoteError, *WorkerLostError, *LaunchError, *MismatchError or a context's error
}

func (e *RingError) Error() string {
	why := strings.TrimPrefix(fmt.Sprint(e.Err), "fiber: ")
	if e.Rank < 0 {
		return fmt.Sprintf("fiber: %s was ended: %s", e.Ring, why)
	}
	return fmt.Sprintf("fiber: %s failed at rank %d: %s", e.Ring, e.Rank, why)
}

// Unwrap gives the failed rank's error.
func (e *RingError) Unwrap() error { return e.Err }

// ringDetail is a RingError on its way.
type ringDetail struct {
	Ring   string
	Rank   int
	Cause  wire.Error
	Remote bool // Cause is a *RemoteError, and not what it wraps
}

func init() {
	// It wraps all the others. This is no part of the variable since decoding
	// looks at that.
	kinds = append([]kind{{"RingError",
		func(err error) (any, bool) {
			var e *RingError
			if !errors.As(err, &e) {
				return nil, false
			}
			d := ringDetail{Ring: e.Ring, Rank: e.Rank, Cause: *flattenCause(e.Err)}
			_, d.Remote = e.Err.(*RemoteError)
			return d, true
		},
		func(detail []byte) error {
			var d ringDetail
			if msgpack.Unmarshal(detail, &d) != nil {
				return nil
			}
			return &RingError{Ring: d.Ring, Rank: d.Rank, Err: unflattenCause(&d.Cause, d.Remote)}
		}}}, kinds...)
}

// flattenCause is flatten for an error that may have come from another process
// and is to stay that process's.
func flattenCause(err error) *wire.Error {
	e := flatten("", err)
	if r, ok := err.(*RemoteError); ok {
		e.Func, e.Worker, e.Message, e.Stack, e.Panic = r.Func, r.Worker, r.Message, r.Stack, r.Stack != ""
	}
	return e
}

func unflattenCause(e *wire.Error, remote bool) error {
	r := unflatten(e)
	if !remote && len(r.causes) == 1 {
		return r.causes[0]
	}
	return r
}

// RingNode is a rank as its own process sees it. It is given to the functions
// of a ring, whose process it belongs to: it cannot travel. Its methods may be
// called from many goroutines.
type RingNode struct {
	name        string
	node        *ring.Node
	left, right *Neighbour
}

func newRingNode(name string, node *ring.Node) *RingNode {
	return &RingNode{name, node, &Neighbour{node.Left}, &Neighbour{node.Right}}
}

// Rank is this process's number in the ring, from 0 to Size()-1.
func (n *RingNode) Rank() int { return n.node.Rank() }

// Size is the number of ranks.
func (n *RingNode) Size() int { return n.node.Size() }

// Member is a rank and where it is.
type Member struct {
	Rank int
	Name string // of its process
	PID  int    // in its own operating system
	Host string

	IP        string // at which other ranks reach its process
	Interface string // of the network with this address
	// Port is a TCP port that is free there for whatever the rank likes to
	// serve. On Linux it is kept for the rank until its process ends; whoever
	// listens at it sets SO_REUSEADDR, as package net does.
	Port int
}

// Members lists all ranks, in order.
func (n *RingNode) Members() []Member {
	all := make([]Member, len(n.node.Members))
	for i, m := range n.node.Members {
		all[i] = Member{Rank: m.Rank, Name: m.Name, PID: m.PID, Host: m.Host, IP: m.IP, Interface: m.Interface, Port: m.Port}
	}
	return all
}

// TorchEnv gives what torch.distributed and its like find each other by, as
// KEY=value for an exec.Cmd's Env: MASTER_ADDR and MASTER_PORT, which are the
// IP and the port of rank 0, RANK, WORLD_SIZE, and GLOO_SOCKET_IFNAME, the
// network interface of this process.
func (n *RingNode) TorchEnv() []string {
	zero, me := n.node.Members[0], n.node.Members[n.Rank()]
	return []string{
		"MASTER_ADDR=" + zero.IP,
		"MASTER_PORT=" + strconv.Itoa(zero.Port),
		"RANK=" + strconv.Itoa(n.Rank()),
		"WORLD_SIZE=" + strconv.Itoa(n.Size()),
		"GLOO_SOCKET_IFNAME=" + me.Interface,
	}
}

// Left is the neighbour before this rank: rank-1, or the last one for rank 0.
// In a ring of one it is this rank itself.
func (n *RingNode) Left() *Neighbour { return n.left }

// Right is the neighbour behind this rank: rank+1, or rank 0 for the last one.
func (n *RingNode) Right() *Neighbour { return n.right }

// Neighbour is one of the two ranks that a rank exchanges messages with. What
// is sent to the right is received from the left there, and the other way
// round, each in order; collectives do not get in between.
type Neighbour struct{ n *ring.Neighbour }

// Rank is the neighbour's rank.
func (b *Neighbour) Rank() int { return b.n.Rank }

// Send sends a value. It returns when the value has left and may be changed,
// and blocks while the neighbour has not received what was sent before; a
// message of any size, and 16 MiB of smaller ones, may wait there, so that all
// ranks may send first and receive then. It returns ctx.Err() when ctx ends
// before the value has begun to leave, a *RingError when the ring has failed,
// an *EncodeError, or an error that says that the neighbour's function has
// returned.
func (b *Neighbour) Send(ctx context.Context, v any) error {
	frames, err := marshalLingering(v)
	if err != nil {
		return errorf("fiber: a message to rank %d: %w", b.Rank(), oneValue(err))
	}
	if err := b.n.Send(ctx, frames); err != nil {
		return messageError("to", b.Rank(), err)
	}
	return nil
}

// Recv waits for the neighbour's next value and puts it where ptr points to; it
// must be of the type that was sent. It blocks until one comes, or returns
// ctx.Err() when ctx ends, a *RingError when the ring has failed, an
// *EncodeError when the types differ, or an error that says that the
// neighbour's function has returned.
func (b *Neighbour) Recv(ctx context.Context, ptr any) error {
	frames, err := b.n.Recv(ctx)
	if err != nil {
		return messageError("from", b.Rank(), err)
	}
	if err := codec.Unmarshal(frames, ptr); err != nil {
		return messageError("from", b.Rank(), oneValue(err))
	}
	return nil
}

// messageError adds what the message was, except where the error tells more.
func messageError(way string, rank int, err error) error {
	if failed := (*RingError)(nil); errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errorf("fiber: a message %s rank %d: %w", way, rank, fromEngine(err))
}
