//go:build unix

package main

import (
	"context"
	"io"
	"time"

	"github.com/fiber-go/fiber"
	records "github.com/fiber-go/fiber/internal/report"
)

var observedRows = []row{
	{name: "observed/map", unit: rate, pairs: 15, open: openObserved(4, 10*mapTasks, func(ctx context.Context, pool *fiber.Pool, n int, opts ...fiber.CallOption) error {
		return mapSame(ctx, pool, n, append(opts, fiber.ChunkSize(1))...)
	})},
	{name: "observed/apply", unit: duration, pairs: 25, open: openObserved(1, 0, func(ctx context.Context, pool *fiber.Pool, n int, _ ...fiber.CallOption) error {
		for range n {
			if err := applySame(ctx, pool); err != nil {
				return err
			}
		}
		return nil
	})},
}

// openObserved measures work while all that happens is written into a report and a trace, and OnProgress is told, beside the same
// work while nobody watches.
func openObserved(workers, ops int, work func(ctx context.Context, pool *fiber.Pool, n int, opts ...fiber.CallOption) error) func(context.Context, *match) error {
	return func(ctx context.Context, m *match) error {
		pool, err := warmPool(ctx, m, workers, applySame)
		if err != nil {
			return err
		}
		m.subject = contender{name: "observed", ops: ops, run: func(ctx context.Context, n int) (float64, error) {
			stop, err := observe(ctx)
			if err != nil {
				return 0, err
			}
			defer stop()
			return timed(func(ctx context.Context, n int) error {
				return work(ctx, pool, n, fiber.OnProgress(func(fiber.Progress) {}))
			})(ctx, n)
		}}
		m.references = []reference{{bound: atMost(1 / 0.9), contender: contender{name: "unobserved", ops: ops,
			run: timed(func(ctx context.Context, n int) error { return work(ctx, pool, n) })}}}
		return nil
	}
}

// observe records what happens from now on, until stop is called.
func observe(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	info := records.Info{Began: time.Now()}
	recorder, trace := records.NewRecorder(info), records.NewTrace(io.Discard, info)
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		first := true
		for e, err := range fiber.Events(ctx) {
			if err != nil {
				return
			}
			if recorder.Add(e); first {
				close(begun)
				first = false
			}
			trace.Add(e)
		}
	}()
	select {
	case <-begun: // the first look at what processes use
	case <-ended:
	}
	return func() {
		cancel()
		<-ended
		_ = trace.Close()
	}, nil
}
