//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var queueRows = []row{
	{name: "queue/put", unit: duration, pairs: 15, open: openQueuePut},
	{name: "queue/get", unit: duration, pairs: 15, open: openQueueGet},
	{name: "queue/many", unit: duration, pairs: 15, open: openQueueMany},
	{name: "queue/goroutines", unit: duration, pairs: 15, open: openQueueGoroutines},
	{name: "queue/brief", unit: duration, pairs: 9, open: deadlines{items: 100_000, goroutines: 1, most: 5 * time.Millisecond}.open},
	{name: "queue/brief-6", unit: duration, pairs: 9, open: deadlines{items: 6_000, goroutines: 6, most: 5 * time.Millisecond}.open},
	{name: "queue/stopped", unit: duration, pairs: 5, open: deadlines{items: 300_000, goroutines: 32,
		least: 100 * time.Millisecond, most: 100 * time.Millisecond, stop: 500 * time.Millisecond, ops: 5_000}.open},
}

// queueWork is the task of a producer or a consumer.
type queueWork struct {
	Queue *fiber.SimpleQueue[int]
	N     int
	Batch int // items in a call of PutMany or GetMany; 0 for Put and Get
	Many  int // goroutines that put; 0 for none but the task's own
}

// putItems puts items and returns the seconds that it took.
var putItems = fiber.Register("bench.putItems", func(ctx context.Context, w queueWork) (float64, error) {
	start := time.Now()
	var err error
	switch {
	case w.Many > 0:
		var wg sync.WaitGroup
		for g := range w.Many {
			wg.Go(func() {
				for i := g; i < w.N; i += w.Many {
					if failed := w.Queue.Put(ctx, i); failed != nil {
						err = failed
						return
					}
				}
			})
		}
		wg.Wait()
	case w.Batch > 0:
		items := make([]int, w.Batch)
		for i := 0; i < w.N && err == nil; i += w.Batch {
			err = w.Queue.PutMany(ctx, items[:min(w.Batch, w.N-i)])
		}
	default:
		for i := 0; i < w.N && err == nil; i++ {
			err = w.Queue.Put(ctx, i)
		}
	}
	return time.Since(start).Seconds(), err
}, meta.CPU(1))

// getItems gets items and returns the seconds that it took.
var getItems = fiber.Register("bench.getItems", func(ctx context.Context, w queueWork) (float64, error) {
	start := time.Now()
	for got := 0; got < w.N; {
		if w.Batch == 0 {
			if _, err := w.Queue.Get(ctx); err != nil {
				return 0, err
			}
			got++
			continue
		}
		items, err := w.Queue.GetMany(ctx, min(w.Batch, w.N-got))
		if err != nil {
			return 0, err
		}
		got += len(items)
	}
	return time.Since(start).Seconds(), nil
}, meta.CPU(1))

// queueTrio is a queue in this process, and a producer and a consumer in
// processes of their own.
type queueTrio struct {
	queue              *fiber.SimpleQueue[int]
	producer, consumer *fiber.Pool
}

func openTrio(ctx context.Context, m *match) (*queueTrio, error) {
	queue, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		return nil, err
	}
	m.closing(func() { queue.Close() })
	t := &queueTrio{queue: queue}
	if t.producer, err = openPool(m, 1); err != nil {
		return nil, err
	}
	if t.consumer, err = openPool(m, 1); err != nil {
		return nil, err
	}
	_, err = t.both(ctx, queueWork{N: 100}, queueWork{N: 100})
	return t, err
}

// both puts items, then gets items, and returns the seconds that each took.
func (t *queueTrio) both(ctx context.Context, put, get queueWork) (took [2]float64, err error) {
	put.Queue, get.Queue = t.queue, t.queue
	if took[0], err = fiber.Apply(ctx, t.producer, putItems, put); err != nil {
		return took, err
	}
	took[1], err = fiber.Apply(ctx, t.consumer, getItems, get)
	return took, err
}

func openQueuePut(ctx context.Context, m *match) error { return openQueueOp(ctx, m, "Put", 0) }
func openQueueGet(ctx context.Context, m *match) error { return openQueueOp(ctx, m, "Get", 1) }

// openQueueOp measures Put (which is 0) or Get (1) against 64 bytes there and
// back over a bare socket.
func openQueueOp(ctx context.Context, m *match, name string, which int) error {
	t, err := openTrio(ctx, m)
	if err != nil {
		return err
	}
	m.subject = contender{name: name, run: func(ctx context.Context, n int) (float64, error) {
		took, err := t.both(ctx, queueWork{N: n}, queueWork{N: n, Batch: 1000 * (1 - which)})
		return took[which], err
	}}
	raw, err := rawEcho(m, 64)
	m.references = []reference{{contender: raw, bound: atMost(2.5)}}
	return err
}

// openQueueMany measures items through a queue, a thousand in a call, with
// producer and consumer at work at the same time.
func openQueueMany(ctx context.Context, m *match) error {
	return openThroughput(ctx, m, "PutMany, GetMany", queueWork{Batch: 1000}, func() (reference, error) {
		return multiprocessing(atLeast(2), 0, "queue"), nil
	})
}

// openQueueGoroutines measures items through a queue that 100 goroutines put
// one by one.
func openQueueGoroutines(ctx context.Context, m *match) error {
	return openThroughput(ctx, m, "100 goroutines in Put", queueWork{Many: 100}, func() (reference, error) {
		return reference{contender: fixed("300,000 items/s", 1.0/300_000), bound: atMost(1)}, nil
	})
}

// fixed returns a contender with a fixed cost.
func fixed(name string, cost float64) contender {
	return contender{name: name, ops: 1, run: func(_ context.Context, n int) (float64, error) { return cost * float64(n), nil }}
}

func openThroughput(ctx context.Context, m *match, name string, put queueWork, against func() (reference, error)) error {
	t, err := openTrio(ctx, m)
	if err != nil {
		return err
	}
	m.subject = contender{name: name, run: timed(func(ctx context.Context, n int) error {
		put, get := put, queueWork{Queue: t.queue, N: n, Batch: 1000}
		put.Queue, put.N = t.queue, n
		done := fiber.ApplyAsync(ctx, t.consumer, getItems, get)
		if _, err := fiber.Apply(ctx, t.producer, putItems, put); err != nil {
			return err
		}
		if _, err := done.Get(ctx); err != nil {
			return err
		}
		if left, err := t.queue.Len(ctx); err != nil || left != 0 {
			return fmt.Errorf("%d items are left: %w", left, err)
		}
		return nil
	})}
	ref, err := against()
	m.references = []reference{ref}
	return err
}

// deadlines is Gets with deadlines between least and most, on a queue that always holds about as many items.
// Before each turn of theirs, the process in which the queue lives is stopped once.
type deadlines struct {
	items, goroutines int
	least, most       time.Duration
	stop              time.Duration
	ops               int
}

// timelyWork is the task of a consumer whose Gets have deadlines.
type timelyWork struct {
	Queue       *fiber.Queue[int]
	N           int
	Goroutines  int
	Least, Most time.Duration // 0 for no deadlines
	Owner       int           // the process that is stopped first
	Stop        time.Duration // 0 for not at all
}

// getTimely gets items and returns the seconds that it took since the owner went on.
var getTimely = fiber.Register("bench.getTimely", func(ctx context.Context, w timelyWork) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	get := func() error {
		if w.Most == 0 {
			_, err := w.Queue.Get(ctx)
			return err
		}
		brief, cancel := context.WithTimeout(ctx, w.Least+rand.N(w.Most-w.Least+1))
		defer cancel()
		_, err := w.Queue.Get(brief)
		return err
	}
	var got atomic.Int64
	done := make(chan struct{})
	target := atomic.Int64{}
	target.Store(math.MaxInt64)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	start := time.Now()
	if w.Stop == 0 {
		target.Store(int64(w.N))
	}
	for range w.Goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				switch err := get(); {
				case err == nil:
					if got.Add(1) == target.Load() {
						close(done)
					}
				case !errors.Is(err, context.DeadlineExceeded):
					cancel(err)
				}
			}
		})
	}
	if w.Stop > 0 {
		if err := syscall.Kill(w.Owner, syscall.SIGSTOP); err != nil {
			return 0, err
		}
		time.Sleep(w.Stop)
		target.Store(got.Load() + int64(w.N) + int64(w.Goroutines))
		start = time.Now()
		if err := syscall.Kill(w.Owner, syscall.SIGCONT); err != nil {
			return 0, err
		}
	}
	select {
	case <-done:
		return time.Since(start).Seconds(), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}, meta.CPU(1))

func (d deadlines) open(ctx context.Context, m *match) error {
	manager, err := openManager(ctx, m)
	if err != nil {
		return err
	}
	home, err := fiber.NewObject(ctx, manager, counters, 0)
	if err != nil {
		return err
	}
	owner, err := fiber.Call(ctx, home, counterProcess, struct{}{})
	if err != nil {
		return err
	}
	queue, err := fiber.NewQueue[int](ctx, manager)
	if err != nil {
		return err
	}
	consumer, err := openPool(m, 1)
	if err != nil {
		return err
	}
	get := func(w timelyWork) func(context.Context, int) (float64, error) {
		return func(ctx context.Context, n int) (float64, error) {
			left, err := queue.Len(ctx)
			if err == nil {
				err = queue.PutMany(ctx, make([]int, max(0, d.items+n-left)))
			}
			if err != nil {
				return 0, err
			}
			w.Queue, w.N, w.Goroutines = queue, n, d.goroutines
			return fiber.Apply(ctx, consumer, getTimely, w)
		}
	}
	m.subject = contender{name: "Get with a deadline", ops: d.ops, run: get(timelyWork{Least: d.least, Most: d.most, Owner: owner, Stop: d.stop})}
	m.references = []reference{{contender: contender{name: "Get without", ops: d.ops, run: get(timelyWork{})}, bound: atMost(2)}}
	return nil
}
