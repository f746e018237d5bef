//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

const (
	manyWorkers = 512
	manyTasks   = 100_000
)

// fewer are the sizes of the pools whose throughput that of manyWorkers is compared with.
var fewer = []int{2, 4, 8, 16, 64, 256}

var scaleRows = []row{
	{name: "scale/512-chunk-1", unit: rate, pairs: 3, open: func(ctx context.Context, m *match) error {
		return openScale(m, fiber.ChunkSize(1))
	}},
	{name: "scale/512-default", unit: rate, pairs: 3, open: func(ctx context.Context, m *match) error {
		return openScale(m)
	}},
}

// openScale compares the throughput of 512 workers with that of smaller pools. Each pool lives only while it
// is measured, since the heartbeats of hundreds of idle processes would slow the others down.
func openScale(m *match, opts ...fiber.CallOption) error {
	m.subject = contender{name: "512 workers", ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		return taskCost(ctx, manyWorkers, opts...)
	}}
	for _, workers := range fewer {
		c := contender{name: fmt.Sprint(workers, " workers"), ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
			return taskCost(ctx, workers, opts...)
		}}
		m.references = append(m.references, reference{contender: c, bound: atLeast(0.5)})
	}
	return nil
}

// taskCost returns the cost in seconds of one of 100,000 no-ops on a warm pool of that many workers: the best
// of three Maps, since the pool has just started.
func taskCost(ctx context.Context, workers int, opts ...fiber.CallOption) (float64, error) {
	pool, err := fiber.NewPool(workers)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := mapSame(ctx, pool, manyTasks, opts...); err != nil {
		return 0, err
	}
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return 0, err
	}
	best := time.Duration(1<<63 - 1)
	for range 3 {
		start := time.Now()
		if err := mapSame(ctx, pool, manyTasks, opts...); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return best.Seconds() / manyTasks, nil
}
