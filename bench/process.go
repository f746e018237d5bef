//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
)

// processes is how many processes are started before the first is joined.
const processes = 100

var processRows = []row{
	{name: "process/100", unit: duration, pairs: 5, open: openProcess},
	{name: "process/start-join", unit: duration, pairs: 5, open: openStartJoin},
	{name: "pool/replace", unit: duration, pairs: 5, open: openReplace},
	{name: "worker/idle", unit: mebibytes, pairs: 3, open: openIdle},
	{name: "worker/idle-pss", unit: mebibytes, pairs: 3, open: openIdleShare},
}

// openProcess measures the cost of starting, running and joining a process.
func openProcess(_ context.Context, m *match) error {
	m.subject = contender{name: "Process", ops: processes, run: timed(func(ctx context.Context, n int) error {
		started := make([]*fiber.Process, n)
		for i := range started {
			started[i] = fiber.NewProcess(same, i)
			if err := started[i].Start(ctx); err != nil {
				return err
			}
		}
		for _, p := range started {
			if err := p.Join(ctx); err != nil {
				return err
			}
		}
		return nil
	})}
	raw := contender{name: "bare re-exec", ops: processes, run: timed(rawProcesses)}
	python := multiprocessing(forInformation, processes, "process")
	m.references = []reference{{contender: raw, bound: atMost(2)}, python}
	return nil
}

// openStartJoin measures one process after another, each from its start until it has ended.
func openStartJoin(_ context.Context, m *match) error {
	m.subject = startJoin
	raw := contender{name: "bare re-exec", run: timed(func(ctx context.Context, n int) error {
		for range n {
			if err := rawProcesses(ctx, 1); err != nil {
				return err
			}
		}
		return nil
	})}
	m.references = []reference{{contender: raw, bound: atMost(1.3)}, multiprocessing(forInformation, 0, "one_process")}
	return nil
}

var startJoin = contender{name: "Start, Join", run: timed(func(ctx context.Context, n int) error {
	for i := range n {
		p := fiber.NewProcess(same, i)
		if err := p.Start(ctx); err != nil {
			return err
		}
		if err := p.Join(ctx); err != nil {
			return err
		}
	}
	return nil
})}

// openReplace measures the time from the SIGKILL of a pool's only worker to the result of a task of the one that replaces it.
func openReplace(ctx context.Context, m *match) error {
	pool, err := warmPool(ctx, m, 1, applySame)
	if err != nil {
		return err
	}
	m.subject = contender{name: "replace", ops: 3, run: func(ctx context.Context, n int) (total float64, err error) {
		for range n {
			pid, err := fiber.Apply(ctx, pool, process, 0)
			if err != nil {
				return 0, err
			}
			killed := time.Now()
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return 0, err
			}
			for now := pid; now == pid; { // it may have been handed a task before it ends
				if now, err = fiber.Apply(ctx, pool, process, 0); err != nil {
					return 0, err
				}
			}
			total += time.Since(killed).Seconds()
		}
		return total, nil
	}}
	m.references = []reference{{contender: startJoin, bound: atMost(1.5)}}
	return nil
}

// process returns the id of the process that runs it.
var process = fiber.Register("bench.process", func(context.Context, int) (int, error) { return os.Getpid(), nil })

// rawProcesses runs this executable n times as a process that writes a byte to its socket and ends.
func rawProcesses(_ context.Context, n int) error {
	started := make([]*floor, n)
	for i := range started {
		f, err := startFloor("exit", polled)
		if err != nil {
			return err
		}
		started[i] = f
	}
	for _, f := range started {
		if err := f.receive(make([]byte, 1)); err != nil {
			return err
		}
		if err := f.close(); err != nil {
			return err
		}
	}
	return nil
}

// idleLimit is how many MiB of an idle worker may be resident.
const idleLimit = 20

// openIdle measures the resident memory of the largest of four workers after 10,000 no-ops and a second of
// idleness. The executable has all backends, unless the build leaves some out.
func openIdle(ctx context.Context, m *match) error {
	return openIdleMemory(ctx, m, resident, idleLimit)
}

// shareLimit is how many MiB an idle worker may have, where what it shares with others counts in parts.
const shareLimit = 2.5

// openIdleShare is openIdle for the proportional set size.
func openIdleShare(ctx context.Context, m *match) error {
	return openIdleMemory(ctx, m, func(pid int) (float64, error) { return proportional([]int{pid}) }, shareLimit)
}

func openIdleMemory(ctx context.Context, m *match, of func(pid int) (float64, error), limit float64) error {
	pool, err := warmPool(ctx, m, 4, func(ctx context.Context, pool *fiber.Pool) error {
		return mapSame(ctx, pool, 10_000)
	})
	if err != nil {
		return err
	}
	pids, err := workerPIDs(ctx, pool, 4)
	if err != nil {
		return err
	}
	m.subject = contender{name: "worker", ops: 1, run: func(context.Context, int) (float64, error) {
		time.Sleep(time.Second)
		return largest(pids, of)
	}}
	f, err := openFloor(m, "sleep", polled)
	if err != nil {
		return err
	}
	m.references = []reference{
		{contender: constant("limit", limit), bound: atMost(1)},
		{contender: contender{name: "bare re-exec", ops: 1, run: func(context.Context, int) (float64, error) {
			return largest([]int{f.cmd.Process.Pid}, of)
		}}},
	}
	return nil
}

// largest returns the MiB of the process that has the most.
func largest(pids []int, of func(pid int) (float64, error)) (float64, error) {
	most := 0.0
	for _, pid := range pids {
		mib, err := of(pid)
		if err != nil {
			return 0, err
		}
		most = max(most, mib)
	}
	return most, nil
}
