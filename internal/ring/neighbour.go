package ring

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// ahead is how many bytes of messages are read before somebody wants them. One
// message is, whatever its size, so that two ranks may send to each other first
// and receive then.
const ahead = 16 << 20

// Neighbour is the rank to the left or to the right.
type Neighbour struct {
	Rank int

	node *Node
	conn *transport.Conn
	self *Neighbour // in a ring of one: what is sent here arrives there

	arrived, taken chan struct{} // hold one token when something may have changed

	mu    sync.Mutex
	queue [][][]byte
	bytes int
	err   error // why there will be no more
}

func newNeighbour(n *Node, rank int) *Neighbour {
	return &Neighbour{Rank: rank, node: n, arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Send sends an encoded value; see transport.Conn.Send.
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
	err := b.conn.Send(ctx, append([][]byte{{byte(wire.KindMessage)}}, value...)...)
	var size *transport.SizeError
	if err == nil || errors.As(err, &size) || ctx.Err() != nil {
		return err
	}
	return b.node.explain(ctx, b.gone(err))
}

// gone is the end of the connection.
func (b *Neighbour) gone(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return &lostError{rank: b.Rank, err: err}
}

// Recv waits for the next value.
func (b *Neighbour) Recv(ctx context.Context) ([][]byte, error) {
	for {
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
		err := b.err
		b.mu.Unlock()
		if err != nil {
			signal(b.arrived) // others wait, too
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
				return nil, err // ctx has ended for that
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

// read takes messages in until the connection ends.
func (b *Neighbour) read() {
	end := &lostError{rank: b.Rank}
	for {
		frames, err := b.conn.Recv()
		if err == nil && wire.KindOf(frames) == wire.KindMessage && len(frames) > 1 {
			b.put(frames[1:])
			if !b.room() {
				return
			}
			continue
		}
		if err == nil && wire.KindOf(frames) == wire.KindBye {
			end.returned = true
			continue
		}
		if err == nil {
			err = wire.ErrMalformed
			b.conn.Close()
		}
		end.err = err
		break
	}
	b.mu.Lock()
	b.err = end
	b.mu.Unlock()
	signal(b.arrived)
}

// room waits until there is room for another message; false when none will
// be.
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
