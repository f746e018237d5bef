//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// whoAmI returns its worker's process id, late enough for the others to get a
// task, too.
var whoAmI = fiber.Register("bench.whoAmI", func(context.Context, int) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return os.Getpid(), nil
}, meta.CPU(1))

// workerPIDs returns the process ids of a pool's workers, of which there are n.
func workerPIDs(ctx context.Context, pool *fiber.Pool, n int) ([]int, error) {
	var pids []int
	for range 10 {
		found, err := fiber.Map(ctx, pool, whoAmI, make([]int, n), fiber.ChunkSize(1))
		if err != nil {
			return nil, err
		}
		pids = append(pids, found...)
		slices.Sort(pids)
		if pids = slices.Compact(pids); len(pids) == n {
			return pids, nil
		}
	}
	return nil, fmt.Errorf("found %d workers of %d", len(pids), n)
}

// resident returns the resident memory of a process, in MiB.
func resident(pid int) (float64, error) { return memory(pid, "status", "VmRSS") }

// proportional returns the resident memory of processes, in MiB, in which what n of them share counts once.
func proportional(pids []int) (total float64, err error) {
	for _, pid := range pids {
		mib, err := memory(pid, "smaps_rollup", "Pss")
		if err != nil {
			return 0, err
		}
		total += mib
	}
	return total, nil
}

// memory returns a figure from a process's directory, in MiB.
func memory(pid int, file, key string) (float64, error) {
	var kib float64
	_, err := fmt.Sscan(field(fmt.Sprintf("/proc/%d/%s", pid, file), key), &kib)
	if err != nil {
		err = fmt.Errorf("the %s of process %d: %w", key, pid, err)
	}
	return kib / 1024, err
}
