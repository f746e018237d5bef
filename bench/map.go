//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// mapTasks is the length of a no-op Map, for Fiber and its peer alike.
const mapTasks = 50_000

var mapRows = []row{{name: "map/chunk-1", unit: rate, pairs: 7, open: openMap}}

// openMap measures the cost of a task in a Map of no-ops on four workers, whose
// tasks are kept apart by ChunkSize(1). Fiber puts several very short ones into a message.
func openMap(ctx context.Context, m *match) error {
	pool, err := warmPool(ctx, m, 4, applySame)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Map", ops: mapTasks, run: timed(func(ctx context.Context, n int) error {
		return mapSame(ctx, pool, n, fiber.ChunkSize(1))
	})}
	python := multiprocessing(atLeast(8), mapTasks, "map_one")
	m.references = []reference{python}
	return nil
}

// applySame runs one no-op, which starts a pool's workers.
func applySame(ctx context.Context, pool *fiber.Pool) error {
	_, err := fiber.Apply(ctx, pool, same, 1)
	return err
}

// mapSame runs n no-ops and checks their results.
func mapSame(ctx context.Context, pool *fiber.Pool, n int, opts ...fiber.CallOption) error {
	ins := make([]int, n)
	for i := range ins {
		ins[i] = i
	}
	outs, err := fiber.Map(ctx, pool, same, ins, opts...)
	if err != nil {
		return err
	}
	if len(outs) != n {
		return fmt.Errorf("%d results of %d tasks", len(outs), n)
	}
	for i, out := range outs {
		if out != i {
			return fmt.Errorf("task %d returned %d", i, out)
		}
	}
	return nil
}
