//go:build unix

package main

import (
	"context"
	"errors"
	"io"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var pipeRows = []row{
	{name: "pipe/pingpong", unit: duration, pairs: 15, open: openPipe},
	{name: "pipe/children", unit: duration, pairs: 15, open: openPipeChildren},
}

// pipeEcho sends back what it receives until the other end is gone.
var pipeEcho = fiber.Register("bench.pipeEcho", func(ctx context.Context, c *fiber.Conn[[]byte]) (struct{}, error) {
	for {
		b, err := c.Recv(ctx)
		if err == nil {
			err = c.Send(ctx, b)
		}
		switch {
		case errors.Is(err, io.EOF):
			return struct{}{}, nil
		case err != nil:
			return struct{}{}, err
		}
	}
}, meta.CPU(1))

// pipeTurns is a pipe's end and how many turns to play, which come by another
// pipe and are answered there.
type pipeTurns struct {
	End   *fiber.Conn[[]byte]
	Turns *fiber.Conn[int]
}

// pipePlay plays turns with whoever has the other end.
var pipePlay = fiber.Register("bench.pipePlay", func(ctx context.Context, p pipeTurns) (struct{}, error) {
	for {
		n, err := p.Turns.Recv(ctx)
		if err == nil {
			err = play(ctx, p.End, n)
		}
		if err == nil {
			err = p.Turns.Send(ctx, n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return struct{}{}, nil
		case err != nil:
			return struct{}{}, err
		}
	}
}, meta.CPU(1))

func play(ctx context.Context, c *fiber.Conn[[]byte], n int) error {
	ball := make([]byte, 64)
	for range n {
		if err := c.Send(ctx, ball); err != nil {
			return err
		}
		if _, err := c.Recv(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startEcho makes a pipe and a process at its other end.
func startEcho(ctx context.Context, m *match) (*fiber.Conn[[]byte], error) {
	ours, theirs, err := fiber.Pipe[[]byte]()
	if err != nil {
		return nil, err
	}
	return ours, startProcess(ctx, m, fiber.NewProcess(pipeEcho, theirs))
}

// startProcess starts a process that is ended with the match.
func startProcess(ctx context.Context, m *match, p *fiber.Process) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	m.closing(func() {
		p.Kill()
		p.Join(context.Background())
	})
	return nil
}

// openPipe measures 64 bytes there and back between this process and a child.
func openPipe(ctx context.Context, m *match) error {
	c, err := startEcho(ctx, m)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Send, Recv", run: timed(func(ctx context.Context, n int) error { return play(ctx, c, n) })}
	raw, err := rawEcho(m, 64)
	m.references = []reference{{contender: raw, bound: atMost(3)}}
	return err
}

// openPipeChildren measures the same between two children: each message passes the pipe's home, and takes the
// way of two round trips.
func openPipeChildren(ctx context.Context, m *match) error {
	c, err := startEcho(ctx, m)
	if err != nil {
		return err
	}
	ours, theirs, err := fiber.Pipe[int]()
	if err != nil {
		return err
	}
	if err := startProcess(ctx, m, fiber.NewProcess(pipePlay, pipeTurns{c, theirs})); err != nil {
		return err
	}
	m.subject = contender{name: "Send, Recv between children", run: timed(func(ctx context.Context, n int) error {
		if err := ours.Send(ctx, n); err != nil {
			return err
		}
		_, err := ours.Recv(ctx)
		return err
	})}
	raw, err := rawEcho(m, 64)
	m.references = []reference{{contender: raw}}
	return err
}
