//go:build unix

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

const sleepWorkers = 5

var nap = fiber.Register("bench.nap", func(_ context.Context, d time.Duration) (time.Duration, error) {
	time.Sleep(d)
	return d, nil
}, meta.CPU(1))

// sleepRows spread their sleeps over the turns: 5000 sleeps of 1 ms are 10
// turns of 100 rounds of 5.
var sleepRows = []row{
	sleepRow("sleep/1ms", time.Millisecond, 10, 100, asyncRound),
	sleepRow("sleep/1ms-map", time.Millisecond, 10, 100, mapRound),
	sleepRow("sleep/10ms", 10*time.Millisecond, 10, 10, asyncRound),
	sleepRow("sleep/100ms", 100*time.Millisecond, 10, 1, asyncRound),
	sleepRow("sleep/1s", time.Second, 3, 1, asyncRound),
}

// A round lets every worker sleep once and waits for all of them.
type round func(ctx context.Context, pool *fiber.Pool, d time.Duration) error

func sleepRow(name string, d time.Duration, pairs, rounds int, r round) row {
	return row{name: name, unit: duration, pairs: pairs, open: func(ctx context.Context, m *match) error {
		return openSleep(ctx, m, d, rounds, r)
	}}
}

// openSleep measures the cost of a round of five sleeps on five workers.
func openSleep(ctx context.Context, m *match, d time.Duration, rounds int, r round) error {
	pool, err := warmPool(ctx, m, sleepWorkers, func(ctx context.Context, pool *fiber.Pool) error {
		return r(ctx, pool, time.Millisecond)
	})
	if err != nil {
		return err
	}
	m.subject = contender{name: "pool of 5", ops: rounds, run: timed(func(ctx context.Context, n int) error {
		for range n {
			if err := r(ctx, pool, d); err != nil {
				return err
			}
		}
		return nil
	})}
	raw, err := rawSleep(m, d)
	if err != nil {
		return err
	}
	raw.ops = rounds
	python := multiprocessing(forInformation, rounds, fmt.Sprint("sleep ", d.Microseconds()))
	m.references = []reference{{contender: raw, bound: atMost(1.15)}, python}
	return nil
}

func asyncRound(ctx context.Context, pool *fiber.Pool, d time.Duration) error {
	var futures [sleepWorkers]*fiber.Future[time.Duration]
	for i := range futures {
		futures[i] = fiber.ApplyAsync(ctx, pool, nap, d)
	}
	for _, f := range futures {
		if _, err := f.Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

func mapRound(ctx context.Context, pool *fiber.Pool, d time.Duration) error {
	_, err := fiber.Map(ctx, pool, nap, []time.Duration{d, d, d, d, d}, fiber.ChunkSize(1))
	return err
}

// rawSleep does the rounds over bare sockets: it tells all five processes to
// sleep before it waits for the first.
func rawSleep(m *match, d time.Duration) (contender, error) {
	floors, err := openFloors(m, sleepWorkers, "sleep", polled)
	b := binary.LittleEndian.AppendUint64(nil, uint64(d))
	return contender{name: "raw sockets", run: timed(func(_ context.Context, n int) error {
		for range n {
			if err := askAll(floors, b, b); err != nil {
				return err
			}
		}
		return nil
	})}, err
}
