//go:build unix

package main

import (
	"context"
	"time"

	"github.com/fiber-go/fiber"
)

// processes is how many processes are started before the first is joined.
const processes = 100

var processRows = []row{
	{name: "process/100", unit: duration, pairs: 5, open: openProcess},
	{name: "process/start-join", unit: duration, pairs: 5, open: openStartJoin},
	{name: "worker/idle", unit: mebibytes, pairs: 3, open: openIdle},
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
	m.subject = contender{name: "Start, Join", run: timed(func(ctx context.Context, n int) error {
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
		return largest(pids)
	}}
	f, err := openFloor(m, "sleep", polled)
	if err != nil {
		return err
	}
	m.references = []reference{
		{contender: constant("limit", idleLimit), bound: atMost(1)},
		{contender: contender{name: "bare re-exec", ops: 1, run: func(context.Context, int) (float64, error) {
			return largest([]int{f.cmd.Process.Pid})
		}}},
	}
	return nil
}

// largest returns the resident MiB of the process that has the most.
func largest(pids []int) (float64, error) {
	most := 0.0
	for _, pid := range pids {
		mib, err := resident(pid)
		if err != nil {
			return 0, err
		}
		most = max(most, mib)
	}
	return most, nil
}
