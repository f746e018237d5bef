//go:build unix

package main

import (
	"context"
	"errors"
	"io"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var pipeRows = []row{{name: "pipe/pingpong", unit: duration, pairs: 15, open: openPipe}}

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

// play sends a ball and gets it back, n times.
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

// openPipe measures 64 bytes there and back between this process and a child.
func openPipe(ctx context.Context, m *match) error {
	ours, theirs, err := fiber.Pipe[[]byte]()
	if err != nil {
		return err
	}
	p := fiber.NewProcess(pipeEcho, theirs)
	if err := p.Start(ctx); err != nil {
		return err
	}
	m.closing(func() {
		p.Kill()
		p.Join(context.Background())
	})
	m.subject = contender{name: "Send, Recv", run: timed(func(ctx context.Context, n int) error { return play(ctx, ours, n) })}
	raw, err := rawEcho(m, 64)
	m.references = []reference{{contender: raw, bound: atMost(3)}}
	return err
}
