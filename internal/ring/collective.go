package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ErrBusy is a collective that begins while another one runs.
var ErrBusy = errors.New("fiber: another collective runs on this rank; they run one at a time, in the same order on all ranks")

// What a collective is, in a wire.Collective.
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

// The bytes of one message: large enough that the calls for it cost little, and
// small enough that a part has some, and that one stays in the processor's
// cache until it is added.
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

// part gives the k-th of n parts of the vector.
func (v *Vector) part(k, n int) []byte {
	lo, hi := Part(len(v.Bytes)/v.Width, k, n)
	return v.Bytes[lo*v.Width : hi*v.Width]
}

// Part is where the k-th of n parts of count numbers begins and ends. They
// differ by at most one number.
func Part(count, k, n int) (lo, hi int) {
	at := func(k int) int { return count/n*k + count%n*k/n }
	return at(k), at(k + 1)
}

// A collective is in progress.
type collective struct {
	*Node
	vector  Vector
	segment int      // bytes
	marks   []uint64 // behind the segments that were posted and will be received again
}

// Do does a collective together with the other ranks: what, its numbers, and
// how they become one (op, whose meaning is the caller's) or where they come
// from (root). All ranks must do the same ones in the same order, with as many
// numbers, or all of them get an error. When ctx ends before it is done the
// ring is broken, for the others as well.
//
// The algorithm is the bandwidth-optimal all-reduce of Patarasuk and Yuan
// (Journal of Parallel and Distributed Computing 69, 2009): the vector is cut
// into a part for each rank; in n-1 steps each part goes once around, summed
// up on its way, and in n-1 further steps the sums do. Parts go in segments,
// each of which is sent on when it has come and not when its part has.
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
		stop := context.AfterFunc(ctx, n.hangUp)
		err = (&collective{Node: n, vector: v, segment: n.segmentOf(len(v.Bytes))}).run(&head)
		if !stop() {
			err = ctx.Err() // it hangs up, in the middle of whatever comes next
		}
	} else if err == nil && v.Finish != nil {
		v.Finish(v.Bytes)
	}
	if err == nil {
		n.done.Store(n.serial)
		return nil
	}
	n.hangUp() // nothing of v is being sent any more
	if err = n.explain(ctx, err); n.failure() == nil {
		n.Fail(n.opts.Break(fmt.Errorf("%s: %w", names[what], err)))
	}
	if err == ctx.Err() {
		return err
	}
	return n.failure()
}

// segmentOf is the size of the segments of a vector of so many bytes.
func (n *Node) segmentOf(size int) int {
	s := min(max(size/n.opts.Size/segments, leastSegment), mostSegment)
	return min(s, int(min(n.opts.MaxMessage, mostSegment))) &^ 7
}

// hangUp ends the connections that collectives use.
func (n *Node) hangUp() {
	if n.opts.Size > 1 {
		n.in.Close()
		n.out.Close()
	}
}

func (c *collective) run(head *wire.Collective) error {
	if err := c.post(head.Pack()); err != nil {
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

// circulate sends the part first to the right and, in each of the steps,
// receives the part before the one sent and sends it in the next step. In the
// first reduce steps what is received is added to what is here, in the others
// it takes its place.
//
// Segments are sent by reference. One that was sent in a reduce step is not
// written to before its sum has come around, and so has been received where it
// was sent to: waiting until it has left, which is so, but may not have been noted
// yet, waits for nobody else.
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
				if err := c.left(c.out.Past(context.Background(), c.marks[0])); err != nil {
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

// spread passes the whole vector on, from the root to the rank at its left.
func (c *collective) spread(head *wire.Collective) error {
	if head.Root == c.opts.Rank {
		if err := c.each(c.vector.Bytes, c.post); err != nil {
			return err
		}
		if err := c.meet(head); err != nil {
			return err
		}
		return c.flush()
	}
	if err := c.meet(head); err != nil {
		return err
	}
	err := c.each(c.vector.Bytes, func(segment []byte) error {
		if err := c.recv(segment); err != nil || c.Right.Rank == head.Root {
			return err
		}
		return c.post(segment)
	})
	if err != nil {
		return err
	}
	return c.flush()
}

// each calls do for the segments of part, and once for an empty part, so that
// each step waits for the one before.
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

// meet waits for the left neighbour to begin the same.
func (c *collective) meet(head *wire.Collective) error {
	var buf [wire.MaxCollective]byte
	size, err := c.in.RecvInto(buf[:])
	if err != nil {
		return c.lostLeft(err)
	}
	if size > 0 && wire.Kind(buf[0]) == wire.KindBye {
		return &lostError{rank: c.Left.Rank, returned: true}
	}
	var theirs wire.Collective
	if err := theirs.Unpack(buf[:size]); err != nil {
		return err
	}
	return compare(c.Left.Rank, &theirs, c.opts.Rank, head)
}

// compare tells how two ranks' collectives differ.
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

func (c *collective) post(segment []byte) error {
	if err := c.out.Post(segment); err != nil {
		return c.lostRight(err)
	}
	return nil
}

// flush waits until what was posted has left.
func (c *collective) flush() error {
	return c.left(c.out.Flush(context.Background()))
}

// left looks at an error of waiting until something has left. A neighbour that
// has done the collective, and gone, has got everything, whether or not that was
// noted here before it went.
func (c *collective) left(err error) error {
	if err == nil {
		return nil
	}
	lost := c.lostRight(err)
	if c.rightLeft.Load() <= c.serial {
		return lost
	}
	return c.out.Close() // and nobody writes
}

// recv fills a segment.
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

// reduce adds what comes to a segment.
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
	<-c.rightEnded // it may have said goodbye
	return &lostError{rank: c.Right.Rank, returned: c.rightLeft.Load() > 0, err: err}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{1, 0}) != 1
