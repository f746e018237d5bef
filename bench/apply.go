//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// same is the no-op of the rows that measure the cost of a task. Like all
// functions measured here it asks for one CPU, as much as a process of
// multiprocessing uses.
var same = fiber.Register("bench.same", func(_ context.Context, i int) (int, error) { return i, nil }, meta.CPU(1))

var applyRows = []row{
	{name: "apply/int", unit: duration, pairs: 25, open: openApply(1)},
	{name: "apply/concurrent", unit: duration, pairs: 25, open: openApply(4)},
}

// openApply measures Apply of an int on a warm pool of one worker, which runs so
// many tasks at a time, against 64 bytes over a bare socket.
func openApply(concurrency int) func(ctx context.Context, m *match) error {
	return func(ctx context.Context, m *match) error { return applyInt(ctx, m, concurrency) }
}

func applyInt(ctx context.Context, m *match, concurrency int) error {
	pool, err := openPool(m, 1, fiber.WithConcurrency(concurrency))
	if err != nil {
		return err
	}
	m.subject = contender{name: "Apply", run: timed(func(ctx context.Context, n int) error {
		for i := range n {
			out, err := fiber.Apply(ctx, pool, same, i)
			if err != nil {
				return err
			}
			if out != i {
				return fmt.Errorf("got %d for %d", out, i)
			}
		}
		return nil
	})}
	raw, err := rawEcho(m, 64)
	if err != nil {
		return err
	}
	block, err := blockingEcho(m, 64)
	if err != nil {
		return err
	}
	python := multiprocessing(atLeast(4), 0, "apply")
	m.references = []reference{{contender: raw, bound: atMost(3)}, {contender: block}, python}
	return nil
}

// openPool makes a pool that lives as long as the match. Its first task starts
// its workers.
func openPool(m *match, workers int, opts ...fiber.PoolOption) (*fiber.Pool, error) {
	pool, err := fiber.NewPool(workers, opts...)
	if err != nil {
		return nil, err
	}
	m.closing(func() { pool.Close() })
	return pool, nil
}

// warmPool makes a pool that lives as long as the match and returns when all
// its workers are up. warm runs the first task, which starts them.
func warmPool(ctx context.Context, m *match, workers int, warm func(ctx context.Context, pool *fiber.Pool) error) (*fiber.Pool, error) {
	pool, err := openPool(m, workers)
	if err != nil {
		return nil, err
	}
	if err := warm(ctx, pool); err != nil {
		return nil, err
	}
	return pool, pool.WaitUntilWorkersUp(ctx)
}
