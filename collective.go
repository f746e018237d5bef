package fiber

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/fiber-go/fiber/internal/ring"
)

// Float is a type of numbers that the collectives of a ring take.
type Float interface{ ~float32 | ~float64 }

// Op is how the numbers of all ranks become one.
type Op byte

// The operations. Mean is the sum divided by the number of ranks. Min and Max
// give NaN where one rank has one.
const (
	Sum Op = iota
	Mean
	Min
	Max
)

func (o Op) String() string {
	names := [...]string{"Sum", "Mean", "Min", "Max"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", byte(o))
}

// AllReduce replaces xs, on every rank, by the sum of all ranks' xs, number by
// number, or by what op says. It blocks until all ranks have come to it.
//
// Like all collectives it is called by every rank, with slices of the same
// length and type, and in the same order as the others: a rank that does
// something else makes it an error on all. Collectives of one rank run one at a
// time; one that is called while another runs is refused. When ctx ends before
// a collective is done, or something else goes wrong with it, the ring has
// failed, for all ranks, and xs holds no particular numbers. xs must not be
// used by others until it returns; then nobody else holds it. Errors are
// ctx.Err() and *RingError.
//
// Each rank sends and receives 2(n-1)/n of the bytes of xs, in a ring of n. The
// result is the same on all ranks, to the last bit, and the same from run to
// run: the numbers are added in an order that depends on n and the length only.
func AllReduce[T Float](ctx context.Context, node *RingNode, xs []T, op ...Op) error {
	o, err := oneOp("AllReduce", node, op)
	if err != nil {
		return err
	}
	return node.node.Do(ctx, ring.AllReduce, byte(o), 0, vector(node, xs, o))
}

// ReduceScatter adds up all ranks' xs as AllReduce does, and gives each rank
// one part of the result: with n ranks and m numbers, rank r gets those from
// r*m/n to (r+1)*m/n. It is returned as a part of xs, whose other numbers are
// overwritten. For the rest see AllReduce; it moves half as much.
func ReduceScatter[T Float](ctx context.Context, node *RingNode, xs []T, op ...Op) ([]T, error) {
	o, err := oneOp("ReduceScatter", node, op)
	if err != nil {
		return nil, err
	}
	if err := node.node.Do(ctx, ring.ReduceScatter, byte(o), 0, vector(node, xs, o)); err != nil {
		return nil, err
	}
	lo, hi := ring.Part(len(xs), node.Rank(), node.Size())
	return xs[lo:hi:hi], nil
}

// AllGather gives every rank the numbers of all: n slices of the same length,
// one behind the other in the order of the ranks. xs itself is not changed. For
// the rest see AllReduce.
func AllGather[T Float](ctx context.Context, node *RingNode, xs []T) ([]T, error) {
	if node == nil {
		return nil, errNoNode("AllGather")
	}
	all := make([]T, len(xs)*node.Size())
	copy(all[len(xs)*node.Rank():], xs)
	if err := node.node.Do(ctx, ring.AllGather, 0, 0, vector(node, all, Sum)); err != nil {
		return nil, err
	}
	return all, nil
}

// Broadcast replaces xs, on every rank, by that of the rank root. A rank
// returns when it has the numbers and has passed them on, which may be before
// the others have them. For the rest see AllReduce.
func Broadcast[T Float](ctx context.Context, node *RingNode, root int, xs []T) error {
	if node == nil {
		return errNoNode("Broadcast")
	}
	if root < 0 || root >= node.Size() {
		return fmt.Errorf("fiber: Broadcast: there is no rank %d in a ring of %d", root, node.Size())
	}
	return node.node.Do(ctx, ring.Broadcast, 0, root, vector(node, xs, Sum))
}

// Barrier returns when all ranks have called it. For the rest see AllReduce.
func Barrier(ctx context.Context, node *RingNode) error {
	if node == nil {
		return errNoNode("Barrier")
	}
	return node.node.Do(ctx, ring.Barrier, 0, 0, ring.Vector{Width: 1})
}

func errNoNode(what string) error {
	return errors.New("fiber: " + what + ": the node is nil; it is given to the functions of a ring")
}

func oneOp(what string, node *RingNode, op []Op) (Op, error) {
	switch {
	case node == nil:
		return 0, errNoNode(what)
	case len(op) == 0:
		return Sum, nil
	case len(op) > 1:
		return 0, fmt.Errorf("fiber: %s: one operation at a time, not %v", what, op)
	case op[0] > Max:
		return 0, fmt.Errorf("fiber: %s: there is no operation %v", what, op[0])
	}
	return op[0], nil
}

// vector is xs as the engine sees it.
func vector[T Float](node *RingNode, xs []T, op Op) ring.Vector {
	v := ring.Vector{Bytes: ring.Bytes(xs), Width: int(unsafe.Sizeof(*new(T)))}
	switch op {
	case Sum:
		v.Reduce = ring.Sum[T]
	case Mean:
		v.Reduce, v.Finish = ring.Sum[T], ring.Divide[T](node.Size())
	case Min:
		v.Reduce = ring.Min[T]
	case Max:
		v.Reduce = ring.Max[T]
	}
	return v
}
