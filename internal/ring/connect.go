package ring

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// Join tells the parent how to reach this rank, waits for the list of all ranks,
// and connects to both neighbours. In a ring of one it connects to itself.
func (n *Node) Join(ctx context.Context) error {
	listener, err := n.opts.Listen(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	me := wire.Member{Rank: n.opts.Rank, Endpoint: listener.Endpoint()}
	if me.Port, n.releasePort, err = reservePort(); err != nil {
		n.releasePort = func() {}
		return err
	}
	me.IP, me.Interface = address(me.Endpoint)
	if err := n.opts.Post(wire.MustPack(wire.KindMember, me)...); err != nil {
		return err
	}
	select {
	case n.Members = <-n.table:
	case <-n.life.Done():
		return n.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
	if len(n.Members) != n.opts.Size {
		return wire.ErrMalformed
	}
	if err := n.connect(ctx, listener); err != nil {
		if failed := n.failure(); failed != nil {
			return failed
		}
		return err
	}
	n.talking.Add(2)
	n.readers.Go(n.drain)
	n.readers.Go(n.Left.take)
	n.readers.Go(n.Right.take)
	return nil
}

// connect makes two connections to each neighbour, one for collectives and one
// for messages: it dials those to the right and accepts those from the left.
func (n *Node) connect(ctx context.Context, listener *transport.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for _, messages := range []bool{false, true} {
		c, err := n.opts.Dial(ctx, n.Members[n.Right.Rank].Endpoint)
		if err != nil {
			return fmt.Errorf("fiber: connecting to rank %d: %w", n.Right.Rank, err)
		}
		if err := n.own(c); err != nil {
			return err
		}
		if err := c.Post(wire.MustPack(wire.KindMeet, wire.Meet{Ring: n.opts.Name, Rank: n.opts.Rank, Messages: messages})...); err != nil {
			return fmt.Errorf("fiber: connecting to rank %d: %w", n.Right.Rank, err)
		}
		if messages {
			n.Right.conn = c
		} else {
			n.out = c
		}
	}
	for n.in == nil || n.Left.conn == nil {
		c, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("fiber: waiting for rank %d: %w", n.Left.Rank, cmp.Or(ctx.Err(), err))
		}
		if err := n.own(c); err != nil {
			return err
		}
		inTime := context.AfterFunc(ctx, func() { c.Close() })
		frames, err := c.Recv()
		if !inTime() || err != nil {
			return fmt.Errorf("fiber: waiting for rank %d: %w", n.Left.Rank, cmp.Or(ctx.Err(), err))
		}
		var meet wire.Meet
		if wire.KindOf(frames) != wire.KindMeet || wire.Unpack(frames, &meet) != nil || meet.Rank != n.Left.Rank || meet.Ring != n.opts.Name {
			return fmt.Errorf("%w: %v instead of rank %d", wire.ErrMalformed, wire.KindOf(frames), n.Left.Rank)
		}
		if meet.Messages {
			n.Left.conn = c
		} else {
			n.in = c
		}
	}
	return nil
}

// drain reads the connection on which this rank only sends, to the right: for
// the transport's own messages, and for the goodbye.
func (n *Node) drain() {
	for {
		if _, err := n.out.Recv(); err != nil {
			return
		}
	}
}
