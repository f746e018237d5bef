package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ErrBusy is the error of a collective that begins while another one runs.
var ErrBusy = errors.New("fiber: another collective runs on this rank; they run one at a time, in the same order on all ranks")

// The kinds of collectives: What of a wire.Collective.
const (
	AllReduce = 1 + iota
	Broadcast
	AllGather
	ReduceScatter
	Barrier
	Start // the barrier between the init function and the run function
)

var names = [...]string{AllReduce: "AllReduce", Broadcast: "Broadcast", AllGather: "AllGather",
	ReduceScatter: "ReduceScatter", Barrier: "Barrier", Start: "the ring's function"}

// The bytes of one message: so many that the cost of sending it hardly counts,
// and so few that a part has several messages, and that one stays in the
// processor's cache until it is added.
const (
	leastSegment = 32 << 10
	mostSegment  = 512 << 10
	segments     = 8 // of a part, unless these bounds say otherwise
)

// Vector is the numbers of a collective, as bytes.
type Vector struct {
	Bytes  []byte
	Width  int // bytes of a number
	Reduce func(dst, src []byte)
	Finish func(dst []byte) // after the last Reduce, nil for nothing
}

// part returns the k-th of n parts of the vector.
func (v *Vector) part(k, n int) []byte {
	lo, hi := Part(len(v.Bytes)/v.Width, k, n)
	return v.Bytes[lo*v.Width : hi*v.Width]
}

// Part returns where the k-th of n parts of count numbers begins and ends: it has
// the numbers lo to hi-1. The parts' lengths differ by at most one.
func Part(count, k, n int) (lo, hi int) {
	at := func(k int) int { return count/n*k + count%n*k/n }
	return at(k), at(k + 1)
}

// collective is a collective in progress.
type collective struct {
	*Node
	vector  Vector
	segment int      // bytes
	marks   []uint64 // after each segment that was posted and will be received again
}

// Do runs a collective together with the other ranks. what is its kind, v holds
// its numbers, op says how numbers are combined (its meaning is the caller's), and
// root is the rank whose numbers are broadcast. All ranks must run the same
// collectives in the same order, with as many numbers; otherwise all of them get
// an error. If ctx ends before the collective is done, the ring is broken for all
// ranks. A second collective at the same time fails with ErrBusy.
//
// The algorithm is the bandwidth-optimal all-reduce of Patarasuk and Yuan
// (Journal of Parallel and Distributed Computing 69, 2009): the vector is cut
// into a part for each rank. In n-1 steps each part goes around once and is summed
// up on its way; in n-1 further steps the sums go around. Parts are sent in
// segments, each of which is sent on as soon as it has come.
func (n *Node) Do(ctx context.Context, what, op byte, root int, v Vector) error {
	if !n.busy.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer n.busy.Store(false)
	if err := n.failure(); err != nil {
		return err
	}
	n.serial++
	head := wire.Collective{Serial: n.serial, What: what, Op: op, Width: byte(v.Width), Big: bigEndian, Root: root, Len: len(v.Bytes) / v.Width}
	err := ctx.Err()
	if err == nil && n.opts.Size > 1 {
		stop := context.AfterFunc(ctx, n.interrupt)
		err = (&collective{Node: n, vector: v, segment: n.segmentOf(len(v.Bytes))}).run(&head)
		if !stop() {
			err = ctx.Err() // interrupt runs, and would break the next collective
		}
	} else if err == nil && v.Finish != nil {
		v.Finish(v.Bytes)
	}
	if err == nil {
		return nil
	}
	n.interrupt() // nothing of v is being sent any more
	if err = n.explain(ctx, err); n.failure() == nil {
		n.Fail(n.opts.Break(fmt.Errorf("%s: %w", names[what], err)))
	}
	if err == ctx.Err() {
		return err
	}
	return n.failure()
}

// segmentOf returns the segment size for a vector of size bytes.
func (n *Node) segmentOf(size int) int {
	s := min(max(size/n.opts.Size/segments, leastSegment), mostSegment)
	return min(s, int(min(n.opts.MaxMessage, mostSegment))) &^ 7
}

// interrupt ends the connections that collectives use.
func (n *Node) interrupt() {
	n.in.Close()
	n.out.Close()
}

func (c *collective) run(head *wire.Collective) error {
	if err := c.lostRight(c.out.Post(wire.MustPack(wire.KindCollective, head)...)); err != nil {
		return err
	}
	me, size := c.opts.Rank, c.opts.Size
	switch head.What {
	case AllReduce:
		return c.circulate(head, me-1, 2*(size-1), size-1)
	case ReduceScatter:
		return c.circulate(head, me-1, size-1, size-1)
	case AllGather:
		return c.circulate(head, me, size-1, 0)
	case Broadcast:
		return c.spread(head)
	}
	return c.circulate(head, me, size-1, 0)
}

// circulate sends the part number first to the right. In each of the steps it
// receives the part before the one that it has sent, and sends that part in the
// next step. In the first reduce steps it adds what it receives to its own
// numbers; in the others it replaces them.
//
// Segments are sent by reference. A segment that was sent in a reduce step is
// written to only when its sum has come around, and so has arrived at the right
// neighbour long before. The wait until it has left this process therefore waits
// for no other rank, but only until that is noted here.
func (c *collective) circulate(head *wire.Collective, first, steps, reduce int) error {
	part := func(k int) []byte {
		k %= c.opts.Size
		if k < 0 {
			k += c.opts.Size
		}
		return c.vector.part(k, c.opts.Size)
	}
	post := func(segment []byte) error {
		if err := c.post(segment); err != nil {
			return err
		}
		c.marks = append(c.marks, c.out.Mark())
		return nil
	}
	if err := c.each(part(first), post); err != nil {
		return err
	}
	if err := c.meet(head); err != nil {
		return err
	}
	for step := range steps {
		err := c.each(part(first-1-step), func(segment []byte) error {
			if step < reduce {
				if err := c.reduce(segment, step == reduce-1); err != nil || step == steps-1 {
					return err
				}
				return post(segment)
			}
			if reduce > 0 { // the segments come in the order in which they were posted
				if err := c.lostRight(c.out.Past(context.Background(), c.marks[0])); err != nil {
					return err
				}
				c.marks = c.marks[1:]
			}
			if err := c.recv(segment); err != nil || step == steps-1 {
				return err
			}
			return c.post(segment)
		})
		if err != nil {
			return err
		}
	}
	return c.flush()
}

// spread passes the whole vector around the ring, from the root to the rank at its
// left.
func (c *collective) spread(head *wire.Collective) error {
	if err := c.meet(head); err != nil {
		return err
	}
	err := c.each(c.vector.Bytes, func(segment []byte) error {
		if c.opts.Rank != head.Root {
			if err := c.recv(segment); err != nil {
				return err
			}
		}
		if c.Right.Rank == head.Root {
			return nil
		}
		return c.post(segment)
	})
	if err != nil {
		return err
	}
	return c.flush()
}

// each calls do for each segment of part. It calls do once for an empty part, so
// that each step still waits for the one before.
func (c *collective) each(part []byte, do func([]byte) error) error {
	for {
		segment := part[:min(len(part), c.segment)]
		if err := do(segment); err != nil {
			return err
		}
		if part = part[len(segment):]; len(part) == 0 {
			return nil
		}
	}
}

// meet waits until the left neighbour begins the same collective; the error says
// how the two differ.
func (c *collective) meet(head *wire.Collective) error {
	frames, err := c.in.Recv()
	if err != nil {
		return c.lostLeft(err)
	}
	switch kind := wire.KindOf(frames); kind {
	case wire.KindCollective:
	case wire.KindBye:
		return &lostError{rank: c.Left.Rank, returned: true}
	default:
		return fmt.Errorf("%w: %v from rank %d instead of a collective", wire.ErrMalformed, kind, c.Left.Rank)
	}
	var theirs wire.Collective
	if err := wire.Unpack(frames, &theirs); err != nil {
		return err
	}
	return compare(c.Left.Rank, &theirs, c.opts.Rank, head)
}

// compare returns an error that says how two ranks' collectives differ, nil if
// they are the same.
func compare(left int, theirs *wire.Collective, me int, ours *wire.Collective) error {
	switch {
	case *theirs == *ours:
		return nil
	case theirs.What != ours.What:
		return fmt.Errorf("rank %d does %s where rank %d does %s; all ranks must do the same collectives in the same order",
			left, nameOf(theirs.What), me, nameOf(ours.What))
	case theirs.Width != ours.Width:
		return fmt.Errorf("rank %d gives []float%d and rank %d []float%d", left, 8*int(theirs.Width), me, 8*int(ours.Width))
	case theirs.Len != ours.Len:
		return fmt.Errorf("rank %d gives %d numbers and rank %d gives %d; the slices must have the same length on all ranks",
			left, theirs.Len, me, ours.Len)
	case theirs.Root != ours.Root:
		return fmt.Errorf("rank %d names rank %d as the root and rank %d names rank %d", left, theirs.Root, me, ours.Root)
	case theirs.Op != ours.Op:
		return fmt.Errorf("rank %d and rank %d give different operations", left, me)
	case theirs.Big != ours.Big:
		return fmt.Errorf("rank %d and rank %d run on machines of different byte order", left, me)
	}
	return fmt.Errorf("%w: collective %d of rank %d where rank %d has come to %d", wire.ErrMalformed, theirs.Serial, left, me, ours.Serial)
}

func nameOf(what byte) string {
	if int(what) < len(names) && names[what] != "" {
		return names[what]
	}
	return fmt.Sprintf("collective %d", what)
}

func (c *collective) post(segment []byte) error { return c.lostRight(c.out.Post(segment)) }

// flush waits until what was posted has left.
func (c *collective) flush() error { return c.lostRight(c.out.Flush(context.Background())) }

// recv receives a segment from the left.
func (c *collective) recv(segment []byte) error {
	size, err := c.in.RecvInto(segment)
	if err != nil {
		return c.lostLeft(err)
	}
	if size != len(segment) {
		return fmt.Errorf("%w: %d bytes from rank %d instead of %d", wire.ErrMalformed, size, c.Left.Rank, len(segment))
	}
	return nil
}

// reduce receives numbers from the left and combines them with a segment. last
// says that this completes the sum.
func (c *collective) reduce(segment []byte, last bool) error {
	if len(c.scratch) < len(segment) {
		c.scratch = make([]byte, c.segment)
	}
	scratch := c.scratch[:len(segment)]
	if err := c.recv(scratch); err != nil {
		return err
	}
	c.vector.Reduce(segment, scratch)
	if last && c.vector.Finish != nil {
		c.vector.Finish(segment)
	}
	return nil
}

func (c *collective) lostLeft(err error) error {
	var size *transport.SizeError
	if errors.As(err, &size) {
		return fmt.Errorf("%w: from rank %d: %v", wire.ErrMalformed, c.Left.Rank, err)
	}
	return &lostError{rank: c.Left.Rank, err: err}
}

func (c *collective) lostRight(err error) error {
	if err == nil {
		return nil
	}
	return &lostError{rank: c.Right.Rank, err: err}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{1, 0}) != 1
