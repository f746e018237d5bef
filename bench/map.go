//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// mapTasks is the length of a no-op Map, for Fiber and its peer alike.
const mapTasks = 50_000

var mapRows = []row{
	{name: "map/chunk-1", unit: rate, pairs: 7, open: func(ctx context.Context, m *match) error {
		return openMap(ctx, m, atLeast(8), "map_one", fiber.ChunkSize(1))
	}},
	{name: "map/default", unit: rate, pairs: 7, open: func(ctx context.Context, m *match) error {
		return openMap(ctx, m, forInformation, "map_default")
	}},
}

// openMap measures a Map of no-ops on four workers, the cost being that of one task.
func openMap(ctx context.Context, m *match, b bound, command string, opts ...fiber.CallOption) error {
	pool, err := warmPool(ctx, m, 4, applySame)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Map", ops: mapTasks, run: timed(func(ctx context.Context, n int) error {
		return mapSame(ctx, pool, n, opts...)
	})}
	python, err := multiprocessing(m, b, mapTasks, command)
	m.references = []reference{python}
	return err
}

// applySame starts a pool's workers by one no-op.
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
			return fmt.Errorf("task %d gave %d", i, out)
		}
	}
	return nil
}
