package fiber

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/fiber-go/fiber/internal/ring"
)

// Float is the constraint for the numbers in the collectives of a ring.
type Float interface{ ~float32 | ~float64 }

// Op is an operation that combines the numbers of all ranks.
type Op byte

// The operations. Mean is the sum divided by the number of ranks. Min and Max
// are NaN where any rank has a NaN.
const (
	Sum Op = iota
	Mean
	Min
	Max
)

// String returns the operation's name.
func (o Op) String() string {
	names := [...]string{"Sum", "Mean", "Min", "Max"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", byte(o))
}

// AllReduce replaces xs, on every rank, by the sum of all ranks' xs, number by
// number; op chooses another operation. It blocks until all ranks have called
// it.
//
// Every rank must call a collective, with slices of the same length and type,
// and all ranks must call their collectives in the same order. Otherwise, the
// collective fails on all ranks. A rank runs one collective at a time; a second
// one at the same time is refused.
//
// When ctx ends before a collective is finished, or the collective fails
// otherwise, the ring has failed for all ranks, and the contents of xs are
// undefined. Other goroutines must not use xs until AllReduce returns; after
// that Fiber does not use it. Errors are ctx.Err() and *RingError.
//
// In a ring of n, each rank sends and receives 2(n-1)/n of the bytes of xs. The
// result is the same on all ranks and in every run, to the last bit, since the
// order in which numbers are added depends only on n and the length of xs.
func AllReduce[T Float](ctx context.Context, node *RingNode, xs []T, op ...Op) error {
	o, err := oneOp("AllReduce", node, op)
	if err != nil {
		return err
	}
	return node.do(ctx, ring.AllReduce, byte(o), 0, vector(node, xs, o))
}

// ReduceScatter adds up all ranks' xs like AllReduce, but returns only one part
// of the result on each rank: with n ranks and m numbers, rank r gets the
// numbers r*m/n to (r+1)*m/n, the latter excluded. The returned slice is a part
// of xs, whose other numbers are overwritten. ReduceScatter moves half as many
// bytes as AllReduce; for the rest see there.
func ReduceScatter[T Float](ctx context.Context, node *RingNode, xs []T, op ...Op) ([]T, error) {
	o, err := oneOp("ReduceScatter", node, op)
	if err != nil {
		return nil, err
	}
	if err := node.do(ctx, ring.ReduceScatter, byte(o), 0, vector(node, xs, o)); err != nil {
		return nil, err
	}
	lo, hi := ring.Part(len(xs), node.Rank(), node.Size())
	return xs[lo:hi:hi], nil
}

// AllGather returns the numbers of all ranks, on every rank: n slices of the
// same length, one behind the other in the order of the ranks. It does not
// change xs. For the rest see AllReduce.
func AllGather[T Float](ctx context.Context, node *RingNode, xs []T) ([]T, error) {
	if node.empty() {
		return nil, errEmpty("RingNode")
	}
	all := make([]T, len(xs)*node.Size())
	copy(all[len(xs)*node.Rank():], xs)
	if err := node.do(ctx, ring.AllGather, 0, 0, vector(node, all, Sum)); err != nil {
		return nil, err
	}
	return all, nil
}

// Broadcast replaces xs, on every rank, by the xs of rank root. It returns when
// this rank has the numbers and has passed them on, which may be before the
// other ranks have them. For the rest see AllReduce.
func Broadcast[T Float](ctx context.Context, node *RingNode, root int, xs []T) error {
	if node.empty() {
		return errEmpty("RingNode")
	}
	if root < 0 || root >= node.Size() {
		return fmt.Errorf("fiber: Broadcast: there is no rank %d in a ring of %d", root, node.Size())
	}
	return node.do(ctx, ring.Broadcast, 0, root, vector(node, xs, Sum))
}

// Barrier returns when all ranks have called it. It is a collective; for the rest see
// AllReduce.
func (n *RingNode) Barrier(ctx context.Context) error {
	if n.empty() {
		return errEmpty("RingNode")
	}
	return n.do(ctx, ring.Barrier, 0, 0, ring.Vector{Width: 1})
}

func (n *RingNode) do(ctx context.Context, what, op byte, root int, v ring.Vector) error {
	if ctx == nil {
		return errNilContext
	}
	return n.node.Do(ctx, what, op, root, v)
}

func oneOp(what string, node *RingNode, op []Op) (Op, error) {
	switch {
	case node.empty():
		return 0, errEmpty("RingNode")
	case len(op) == 0:
		return Sum, nil
	case len(op) > 1:
		return 0, fmt.Errorf("fiber: %s takes one operation, not %v", what, op)
	case op[0] > Max:
		return 0, fmt.Errorf("fiber: %s: there is no operation %v", what, op[0])
	}
	return op[0], nil
}

// vector describes xs to the engine.
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
