package ring

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ahead is how many bytes of messages are read before Recv asks for them. One
// message is always read, whatever its size, so that two ranks may both send
// before they receive.
const ahead = 16 << 20

// Neighbour is the rank to the left or to the right.
type Neighbour struct {
	Rank int

	node *Node
	conn *transport.Conn
	self *Neighbour // in a ring of one: receives what is sent to this one

	arrived, taken chan struct{} // hold one token when something may have changed
	ended          chan struct{} // closed when err is set
	sent, read     atomic.Uint64 // messages

	mu    sync.Mutex
	queue [][][]byte
	bytes int

	err *lostError // why no more messages come; set before ended is closed
}

func newNeighbour(n *Node, rank int) *Neighbour {
	return &Neighbour{Rank: rank, node: n, arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1), ended: make(chan struct{})}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Send sends an encoded value; see transport.Conn.Send. If the ring has failed, it
// returns that error.
func (b *Neighbour) Send(ctx context.Context, value [][]byte) error {
	if err := b.node.failure(); err != nil {
		return err
	}
	if b.self != nil {
		own := make([][]byte, len(value))
		for i, f := range value {
			own[i] = slices.Clone(f)
		}
		b.self.put(own)
		return nil
	}
	count := b.sent.Add(1)
	err := b.conn.Send(ctx, append([][]byte{{byte(wire.KindMessage)}}, value...)...)
	var size *transport.SizeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &size):
		b.sent.Add(^uint64(0))
		return err
	case ctx.Err() != nil && b.conn.Err() == nil:
		b.sent.Add(^uint64(0))
		return b.node.explain(ctx, ctx.Err())
	}
	// The neighbour may have read the message, said goodbye, and gone, before this
	// side noted that the message had left.
	select {
	case <-b.ended:
		if b.err.returned && b.err.count >= count {
			return nil
		}
		return b.node.explain(ctx, b.err)
	case <-b.node.broken:
	case <-b.node.over:
	case <-ctx.Done():
	case <-time.After(verdictTime):
	}
	return b.node.explain(ctx, &lostError{rank: b.Rank, err: err})
}

// Recv waits for the next value, encoded. The error is the ring's failure, ctx's,
// or a *lostError once the neighbour has gone and all its values were received.
func (b *Neighbour) Recv(ctx context.Context) ([][]byte, error) {
	for {
		var err error
		select {
		case <-b.ended: // all that came before is in the queue
			err = b.err
		default:
		}
		b.mu.Lock()
		if len(b.queue) > 0 {
			value := b.queue[0]
			b.queue = b.queue[1:]
			b.bytes -= codec.Size(value)
			if len(b.queue) > 0 {
				signal(b.arrived)
			}
			b.mu.Unlock()
			signal(b.taken)
			return value, nil
		}
		b.mu.Unlock()
		if err != nil {
			signal(b.arrived) // for other callers
			return nil, b.node.explain(ctx, err)
		}
		select {
		case <-b.arrived:
		case <-b.node.broken:
			return nil, b.node.failure()
		case <-b.node.over:
			return nil, b.node.failure()
		case <-ctx.Done():
			if err := b.node.failure(); err != nil {
				return nil, err // the reason why ctx has ended
			}
			return nil, ctx.Err()
		}
	}
}

func (b *Neighbour) put(value [][]byte) {
	b.mu.Lock()
	b.queue = append(b.queue, value)
	b.bytes += codec.Size(value)
	b.mu.Unlock()
	signal(b.arrived)
}

// take reads messages into the queue until the connection ends.
func (b *Neighbour) take() {
	end := &lostError{rank: b.Rank}
	for end.err == nil {
		frames, err := b.conn.Recv()
		kind := wire.KindOf(frames)
		switch {
		case err != nil:
			end.err = err
		case kind == wire.KindMessage && len(frames) > 1:
			b.read.Add(1)
			b.put(frames[1:])
			if !b.room() {
				return
			}
		case kind == wire.KindBye:
			r := wire.Reader{B: frames[0][1:]}
			end.returned, end.count = true, r.Uvarint()
		default:
			end.err = wire.ErrMalformed
			b.conn.Close()
		}
	}
	b.err = end
	close(b.ended)
	signal(b.arrived)
}

// room waits until there is room for another message. It returns false when the
// ring ends first.
func (b *Neighbour) room() bool {
	for {
		b.mu.Lock()
		full := len(b.queue) > 0 && b.bytes >= ahead
		b.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-b.taken:
		case <-b.node.broken:
			return false
		case <-b.node.over:
			return false
		}
	}
}
