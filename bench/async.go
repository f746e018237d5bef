//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/transport"
)

const (
	asyncCalls = 1000 // started before the first result is awaited
	credit     = 32   // tasks of the bare pool that are outstanding at each worker
)

var asyncRows = []row{
	{name: "apply-async/1000", unit: rate, pairs: 15, open: openApplyAsync},
	{name: "manager/call-async", unit: rate, pairs: 15, open: openCallAsync},
}

// openApplyAsync measures a thousand tasks on two workers, each started by itself before the first result is awaited.
func openApplyAsync(ctx context.Context, m *match) error {
	pool, err := warmPool(ctx, m, 2, applySame)
	if err != nil {
		return err
	}
	return openAsync(m, "ApplyAsync", 0.35, 2, func(ctx context.Context, i int) *fiber.Future[int] {
		return fiber.ApplyAsync(ctx, pool, same, i)
	})
}

// openCallAsync measures a thousand calls of one object's small method.
func openCallAsync(ctx context.Context, m *match) error {
	object, err := openCounter(ctx, m)
	if err != nil {
		return err
	}
	return openAsync(m, "CallAsync", 0.28, 1, func(ctx context.Context, _ int) *fiber.Future[int] {
		return fiber.CallAsync(ctx, object, counterAdd, 1)
	})
}

// openAsync starts a thousand calls at a time and waits for their results, against a bare pool of so many processes.
func openAsync(m *match, name string, atLeastOfIt float64, processes int, start func(context.Context, int) *fiber.Future[int]) error {
	futures := make([]*fiber.Future[int], asyncCalls)
	m.subject = contender{name: name, run: timed(func(ctx context.Context, n int) error {
		for done := 0; done < n; done += asyncCalls {
			for i := range futures {
				futures[i] = start(ctx, i)
			}
			for _, f := range futures {
				if _, err := f.Get(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	}), ops: 20 * asyncCalls}
	bare, err := barePool(m, processes)
	m.references = []reference{{contender: bare, bound: atLeast(atLeastOfIt)}}
	return err
}

// barePool is the least that a pool does: a message of 64 bytes for each task and one for its result, over connections like
// Fiber's, and a few tasks on the way to each worker.
func barePool(m *match, processes int) (contender, error) {
	conns := make([]*transport.Conn, processes)
	for i := range conns {
		f, err := openFloor(m, "answer", polled)
		if err != nil {
			return contender{}, err
		}
		if conns[i], err = transport.Open(f.conn.(net.Conn), true, transport.Options{}); err != nil {
			return contender{}, err
		}
		m.closing(func() { conns[i].Close() })
	}
	message := make([]byte, 64)
	return contender{name: "bare pool", ops: 20 * asyncCalls, run: timed(func(_ context.Context, n int) error {
		var g errgroup.Group
		for _, c := range conns {
			g.Go(func() error {
				for sent, received := 0, 0; received < n/processes; {
					if sent < n/processes && sent-received < credit {
						if err := c.Post(message); err != nil {
							return err
						}
						sent++
						continue
					}
					if _, err := c.Recv(); err != nil {
						return err
					}
					received++
				}
				return nil
			})
		}
		return g.Wait()
	})}, nil
}

// answerAll is a worker of the bare pool.
func answerAll(file *os.File) error {
	nc, err := polled(file)
	if err != nil {
		return err
	}
	c, err := transport.Open(nc.(net.Conn), false, transport.Options{})
	if err != nil {
		return err
	}
	for {
		message, err := c.Recv()
		if err != nil {
			if transport.HungUp(err) {
				return nil
			}
			return fmt.Errorf("a worker of the bare pool: %w", err)
		}
		if err := c.Post(message...); err != nil {
			return err
		}
	}
}
