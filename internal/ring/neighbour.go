package ring

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ahead is how many bytes of messages are read before Recv asks for them, where
// a message counts as least bytes at least: about what the smallest one takes in
// memory. One message is always read, whatever its size, so that two ranks may
// both send before they receive.
const (
	ahead = 16 << 20
	least = 128
)

// Neighbour is the rank to the left or to the right.
type Neighbour struct {
	Rank int

	node *Node
	conn *transport.Conn

	room *semaphore.Weighted       // in messages, in bytes
	gone atomic.Pointer[lostError] // why no more messages come
	news chan struct{}             // has room for one: a message may wait, or gone is set

	mu       sync.Mutex
	messages [][][]byte // read ahead
}

func newNeighbour(n *Node, rank int) *Neighbour {
	return &Neighbour{Rank: rank, node: n, room: semaphore.NewWeighted(ahead), news: make(chan struct{}, 1)}
}

// cost is the room that a message takes.
func cost(value [][]byte) int64 { return int64(min(max(codec.Size(value), least), ahead)) }

// Send sends an encoded value; see transport.Conn.Send. If the ring has failed, it
// returns that error.
func (b *Neighbour) Send(ctx context.Context, value [][]byte) error {
	if err := b.node.failure(); err != nil {
		return err
	}
	if gone := b.gone.Load(); gone != nil {
		return b.node.explain(ctx, gone)
	}
	err := b.conn.Send(ctx, append([][]byte{{byte(wire.KindMessage)}}, value...)...)
	var size *transport.SizeError
	switch {
	case err == nil, errors.As(err, &size):
		return err
	case ctx.Err() == nil || b.conn.Err() != nil:
		err = &lostError{rank: b.Rank, err: err}
	}
	return b.node.explain(ctx, err)
}

// Recv waits for the next value, encoded. A value that is there comes before any
// error. The error is the ring's failure, ctx's, or a *lostError once the neighbour
// has gone and all its values were received.
func (b *Neighbour) Recv(ctx context.Context) ([][]byte, error) {
	for {
		gone := b.gone.Load() // read first, since no messages come after it
		if value := b.next(); value != nil {
			b.room.Release(cost(value))
			return value, nil
		}
		if gone != nil {
			b.tell() // another caller may wait
			return nil, b.node.explain(ctx, gone)
		}
		select {
		case <-b.news:
		case <-b.node.life.Done():
			return nil, b.node.failure()
		case <-ctx.Done():
			return nil, b.node.explain(ctx, ctx.Err()) // the ring's failure may be why ctx has ended
		}
	}
}

// next takes the oldest message, nil when none waits.
func (b *Neighbour) next() (value [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 {
		b.messages = nil // frees the array
		return nil
	}
	value, b.messages[0] = b.messages[0], nil
	if b.messages = b.messages[1:]; len(b.messages) > 0 {
		b.tell() // another caller may wait
	}
	return value
}

// tell wakes a caller of Recv.
func (b *Neighbour) tell() {
	select {
	case b.news <- struct{}{}:
	default: // one is being woken
	}
}

// put waits for room for a message, and adds it.
func (b *Neighbour) put(ctx context.Context, value [][]byte) error {
	if err := b.room.Acquire(ctx, cost(value)); err != nil {
		return err
	}
	b.mu.Lock()
	b.messages = append(b.messages, value)
	b.mu.Unlock()
	b.tell()
	return nil
}

// take reads messages until the connection ends. When this rank has returned, it
// drops them, so that a neighbour that is still sending does not wait.
func (b *Neighbour) take() {
	for {
		frames, err := b.conn.Recv()
		kind := wire.KindOf(frames)
		switch {
		case err != nil:
			b.ended(&lostError{rank: b.Rank, err: err})
			return
		case kind == wire.KindMessage && len(frames) > 1 && b.gone.Load() == nil:
			b.put(b.node.life, frames[1:])
		case kind == wire.KindBye:
			b.ended(&lostError{rank: b.Rank, returned: true})
		default:
			b.ended(&lostError{rank: b.Rank, err: wire.ErrMalformed})
			b.conn.Close()
		}
	}
}

// ended notes why no more messages come. Only the first call counts.
func (b *Neighbour) ended(why *lostError) {
	if b.gone.CompareAndSwap(nil, why) {
		b.tell()
		b.node.talking.Done()
	}
}
