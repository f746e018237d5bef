//go:build unix

package main

import (
	"context"
	"fmt"
	"syscall"
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
	{name: "scale/512-of-8", unit: duration, pairs: 5, open: func(_ context.Context, m *match) error { return openSlots(m, 512, 4, 1.7) }},
	{name: "scale/4-of-1024", unit: duration, pairs: 5, open: func(_ context.Context, m *match) error { return openSlots(m, 4, 64, 1) }},
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

const (
	slots      = 4096                  // tasks at a time, whatever the number of workers
	slotNap    = 20 * time.Millisecond // of a task
	slotRounds = 20                    // tasks of each slot
)

// openSlots compares the processor time that a task costs this process where 4,096 run at a time in so many workers, with where they
// run in another number of workers.
func openSlots(m *match, workers, others int, most float64) error {
	cost := func(workers int) contender {
		return contender{name: fmt.Sprintf("%d of %d", workers, slots/workers), ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
			return slotCost(ctx, workers)
		}}
	}
	m.subject, m.references = cost(workers), []reference{{contender: cost(others), bound: atMost(most)}}
	return nil
}

// slotCost returns the processor seconds of this process for each of many tasks that sleep.
func slotCost(ctx context.Context, workers int) (float64, error) {
	pool, err := fiber.NewPool(workers, fiber.WithConcurrency(slots/workers))
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return 0, err
	}
	ins := make([]time.Duration, slotRounds*slots)
	for i := range ins {
		ins[i] = slotNap
	}
	if _, err := fiber.Map(ctx, pool, nap, ins[:slots], fiber.ChunkSize(1)); err != nil {
		return 0, err
	}
	begun := processor()
	if _, err := fiber.Map(ctx, pool, nap, ins, fiber.ChunkSize(1)); err != nil {
		return 0, err
	}
	return (processor() - begun).Seconds() / float64(len(ins)), nil
}

// processor returns how much processor time this process has used.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
