//go:build unix

package main

import (
	"context"
	"fmt"
	"time"
)

// inPython are the peers on which all work but processes is measured.
var inPython = []string{"multiprocessing", "joblib", "Ray", "Dask", "mpi4py"}

// peerRows are those of -peers: Fiber beside its peers, at the same work.
var peerRows = []row{
	{name: "an int there and back", unit: duration, pairs: 5, open: beside(openApply(1), "apply", 0, inPython...)},
	{name: "10 MB there and back", unit: duration, pairs: 5, open: beside(opened("echo/10MB-bytes"), fmt.Sprint("echo_bytes ", echoBytes), 0, inPython...)},
	{name: "no-ops, ChunkSize(1), 4 workers", unit: rate, pairs: 3, open: beside(openMap, "map_one", 0, inPython...)},
	{name: "five sleeps of 1 ms on 5 workers", unit: duration, pairs: 3, open: beside(opened("sleep/1ms-map"), fmt.Sprint("sleep ", time.Millisecond.Microseconds()), 0, inPython...)},
	{name: "Pi, a million samples, 4 workers", unit: duration, pairs: 3, open: beside(openWarmPi, fmt.Sprint("pi_warm ", piSamples), 0, inPython...)},
	spreadRow(4), spreadRow(16), spreadRow(64),
	spreadMemoryRow(4), spreadMemoryRow(16), spreadMemoryRow(64),
	{name: "a process started and ended", unit: duration, pairs: 5, open: beside(openStartJoin, "one_process", 0,
		"multiprocessing", "multiprocessing, forkserver", "multiprocessing, spawn")},
}

// opened returns what opens the row of that name.
func opened(name string) func(context.Context, *match) error {
	return func(ctx context.Context, m *match) error {
		for _, r := range append(echoRows, sleepRows...) {
			if r.name == name {
				return r.open(ctx, m)
			}
		}
		return fmt.Errorf("no row %s", name)
	}
}

// beside opens a row with peers in the place of its references. Each does ops operations in a turn, or as many as fill it.
func beside(open func(context.Context, *match) error, command string, ops int, peers ...string) func(context.Context, *match) error {
	return func(ctx context.Context, m *match) error {
		if err := open(ctx, m); err != nil {
			return err
		}
		m.references = nil
		for _, name := range peers {
			m.references = append(m.references, besidePeer(name, forInformation, ops, command))
		}
		return nil
	}
}

// spreadRow measures how long it takes until so many workers have read a number in each page of 80 MiB of them.
func spreadRow(workers int) row {
	open := func(ctx context.Context, m *match) error {
		s, err := openSharing(ctx, m, workers, countUp(sharedNumbers), perPage)
		m.subject = contender{name: "Share and Get", ops: 1, run: s.run}
		return err
	}
	return row{name: fmt.Sprintf("80 MiB for %d workers", workers), unit: duration, pairs: 3,
		open: beside(open, fmt.Sprintf("share %d %d", sharedNumbers*8>>20, workers), 1, inPython...)}
}

// spreadMemoryRow measures by how much the memory of all processes grows thereby.
func spreadMemoryRow(workers int) row {
	open := func(_ context.Context, m *match) error {
		m.subject = contender{name: "Share and Get", ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
			return shareMemory(ctx, countUp(sharedNumbers), workers)
		}}
		return nil
	}
	return row{name: fmt.Sprintf("memory of 80 MiB for %d workers", workers), unit: mebibytes, pairs: 1,
		open: beside(open, fmt.Sprintf("share_memory %d %d", sharedNumbers*8>>20, workers), 1, inPython...)}
}
