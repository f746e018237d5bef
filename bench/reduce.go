//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

const (
	reduceParts   = 64
	reduceWorkers = 4
	reduceNumbers = 50_000_000 / 8 // float64
)

var reduceRows = []row{
	{name: "reduce/64x50MB", unit: duration, pairs: 5, open: openReduce},
	{name: "reduce/64x50MB-root", unit: mebibytes, pairs: 3, open: openReduceMemory},
}

var (
	makePart = fiber.Register("bench.makePart", func(ctx context.Context, i int) (*fiber.Shared[[]float64], error) {
		return fiber.Share(ctx, part(i))
	}, meta.CPU(1))
	addParts = fiber.Register("bench.addParts", func(ctx context.Context, pair [2]*fiber.Shared[[]float64]) (*fiber.Shared[[]float64], error) {
		a, err := pair[0].Get(ctx)
		if err != nil {
			return nil, err
		}
		b, err := pair[1].Get(ctx)
		if err != nil {
			return nil, err
		}
		return fiber.Share(ctx, plus(a, b))
	}, meta.CPU(1))
)

// part returns numbers that are all i.
func part(i int) []float64 {
	numbers := make([]float64, reduceNumbers)
	for j := range numbers {
		numbers[j] = float64(i)
	}
	return numbers
}

// plus adds numbers up, one by one.
func plus(a, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i := range sum {
		sum[i] = a[i] + b[i]
	}
	return sum
}

// partsTotal is what each number of all parts together is.
const partsTotal = reduceParts * (reduceParts - 1) / 2

// checkTotal returns an error unless these are the numbers of all parts together.
func checkTotal(numbers []float64) error {
	if len(numbers) != reduceNumbers || numbers[0] != partsTotal || numbers[reduceNumbers-1] != partsTotal {
		return fmt.Errorf("%d numbers from %v", len(numbers), numbers[0])
	}
	return nil
}

// openParts has a warm pool make the parts, which its workers keep.
func openParts(ctx context.Context, m *match) (*fiber.Pool, []*fiber.Shared[[]float64], error) {
	pool, err := warmPool(ctx, m, reduceWorkers, applySame)
	if err != nil {
		return nil, nil, err
	}
	ins := make([]int, reduceParts)
	for i := range ins {
		ins[i] = i
	}
	parts, err := fiber.Map(ctx, pool, makePart, ins, fiber.ChunkSize(1))
	return pool, parts, err
}

// openReduce measures the sum of 64 parts of 50 MB that lie in workers, against goroutines.
func openReduce(ctx context.Context, m *match) error {
	pool, parts, err := openParts(ctx, m)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Reduce", ops: 1, run: timed(func(ctx context.Context, _ int) error {
		_, err := fiber.Reduce(ctx, pool, addParts, parts)
		return err
	})}
	out, err := fiber.Reduce(ctx, pool, addParts, parts)
	if err != nil {
		return err
	}
	numbers, err := out.Get(ctx)
	if err != nil {
		return err
	}
	own := make([][]float64, reduceParts)
	for i := range own {
		own[i] = part(i)
	}
	m.references = []reference{{bound: atMost(4), contender: contender{name: "goroutines", ops: 1,
		run: timed(func(context.Context, int) error { return checkTotal(sumParts(own)) })}}}
	return checkTotal(numbers)
}

// sumParts adds parts up, in pairs, on goroutines.
func sumParts(parts [][]float64) []float64 {
	if len(parts) == 1 {
		return parts[0]
	}
	var halves [2][]float64
	var both sync.WaitGroup
	both.Go(func() { halves[0] = sumParts(parts[:len(parts)/2]) })
	both.Go(func() { halves[1] = sumParts(parts[len(parts)/2:]) })
	both.Wait()
	return plus(halves[0], halves[1])
}

// openReduceMemory measures how much memory the root needs for that, at most.
func openReduceMemory(ctx context.Context, m *match) error {
	pool, parts, err := openParts(ctx, m)
	m.subject = contender{name: "root", ops: 1, run: func(ctx context.Context, _ int) (float64, error) {
		debug.FreeOSMemory()                                                          // what the last row has left
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins again
			return 0, err
		}
		if _, err := fiber.Reduce(ctx, pool, addParts, parts); err != nil {
			return 0, err
		}
		return memory(os.Getpid(), "status", "VmHWM")
	}}
	m.references = []reference{{bound: atMost(1), contender: constant("200 MB", 200e6/(1<<20))}}
	return err
}
