//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
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
func resident(pid int) (float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if value, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
			var kib float64
			_, err := fmt.Sscan(value, &kib)
			return kib / 1024, err
		}
	}
	return 0, errors.New("no VmRSS in its status")
}
