//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/journal"
	"github.com/fiber-go/fiber/meta"
)

const (
	checkpointTasks = 1_000_000 // no-ops
	busyTasks       = 10_000    // of 100 µs
)

// busyFor100us computes for about 100 µs.
var busyFor100us = fiber.Register("bench.busyFor100us", func(_ context.Context, x int) (int, error) {
	h := uint64(x)
	for range 100_000 {
		h = h*6364136223846793005 + 1442695040888963407
	}
	return int(h), nil
}, meta.CPU(1))

var checkpointRows = []row{
	{name: "checkpoint/100us", unit: duration, pairs: 7, open: checkpointed(busyFor100us, 2, busyTasks, atMost(1.1))},
	{name: "checkpoint/no-op", unit: rate, pairs: 7, open: checkpointed(same, 4, checkpointTasks, atMost(2))},
	{name: "checkpoint/complete", unit: rate, pairs: 7, open: openComplete},
}

// checkpointed measures a Map of n tasks with a new checkpoint beside the same Map without one.
func checkpointed(fn *fiber.Func[int, int], workers, n int, most bound) func(context.Context, *match) error {
	return func(ctx context.Context, m *match) error {
		pool, err := warmPool(ctx, m, workers, func(ctx context.Context, pool *fiber.Pool) error {
			_, err := fiber.Apply(ctx, pool, fn, 1)
			return err
		})
		if err != nil {
			return err
		}
		path, err := checkpointPath(m)
		if err != nil {
			return err
		}
		ins := make([]int, n)
		m.subject = contender{name: "with a checkpoint", ops: n, run: func(ctx context.Context, _ int) (float64, error) {
			_ = os.Remove(path)
			return timed(func(ctx context.Context, _ int) error {
				_, err := fiber.Map(ctx, pool, fn, ins, fiber.Checkpoint(path))
				return err
			})(ctx, n)
		}}
		m.references = []reference{{bound: most, contender: contender{name: "Map", ops: n, run: timed(func(ctx context.Context, _ int) error {
			_, err := fiber.Map(ctx, pool, fn, ins)
			return err
		})}}}
		return nil
	}
}

// completeCheckpoint is the file of a call that another run has made, in the directory of that run.
const completeCheckpoint = "complete"

// openComplete measures a call whose results are all in its checkpoint beside a bare loop that reads such a file and
// checks its sums.
func openComplete(ctx context.Context, m *match) error {
	path, err := checkpointPath(m)
	if err != nil {
		return err
	}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	m.closing(pool.Close)
	other, err := startElsewhere(filepath.Dir(path), elsewhereVariable+"=local")
	if err != nil {
		return err
	}
	_, err = other.do("checkpoint")
	if err := errors.Join(err, other.close()); err != nil {
		return err
	}
	complete, err := os.ReadFile(filepath.Join(filepath.Dir(path), completeCheckpoint))
	if err != nil {
		return err
	}
	ins := make([]int, checkpointTasks)
	m.subject = contender{name: "Map", ops: checkpointTasks, run: func(ctx context.Context, n int) (float64, error) {
		if err := writeSynced(path, complete); err != nil { // this run has not used it yet
			return 0, err
		}
		return timed(func(ctx context.Context, n int) error {
			outs, err := fiber.Map(ctx, pool, same, ins, fiber.Checkpoint(path))
			if err == nil && len(outs) != n {
				err = fmt.Errorf("%d results of %d", len(outs), n)
			}
			return err
		})(ctx, n)
	}}
	m.references = []reference{{bound: atMost(3), contender: contender{name: "reading", ops: checkpointTasks, run: timed(func(context.Context, int) error {
		return journal.Look(path, func(int64, [][]byte) error { return nil })
	})}}}
	return nil
}

// writeSynced writes a file, and returns when the disk has it.
func writeSynced(path string, text []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// checkpointPath returns a path in the directory that the program was started in, as an experiment's checkpoint would be.
func checkpointPath(m *match) (string, error) {
	dir, err := os.MkdirTemp(".", "checkpoint")
	if err != nil {
		return "", err
	}
	m.closing(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "calls"), nil
}
