// Command queue starts several processes that get numbers from one queue and
// put their squares into another.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/fiber-go/fiber"
)

// job is a number to be squared, and square is the result.
type (
	job    struct{ N int }
	square struct {
		N, Square int
		Worker    string
	}
)

// queues are a worker's argument: where it gets jobs and puts results.
type queues struct {
	Jobs    *fiber.SimpleQueue[job]
	Squares *fiber.SimpleQueue[square]
}

// work squares numbers until the queue of jobs is closed.
var work = fiber.Register("work", func(ctx context.Context, q queues) (struct{}, error) {
	for j, err := range q.Jobs.Items(ctx) {
		if err != nil {
			return struct{}{}, err
		}
		if err := q.Squares.Put(ctx, square{j.N, j.N * j.N, fiber.CurrentProcess().Name()}); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

var (
	workers = flag.Int("workers", 3, "number of processes")
	jobs    = flag.Int("jobs", 12, "how many numbers to square")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("queue takes only flags, not %q; -h lists them", flag.Args())
	case *workers < 1:
		return fmt.Errorf("-workers %d: it must be at least 1", *workers)
	case *jobs < 0:
		return fmt.Errorf("-jobs %d: it must not be negative", *jobs)
	}
	squares, err := squareAll(ctx, *workers, *jobs)
	if err != nil {
		return err
	}
	sum := 0
	for _, s := range squares {
		fmt.Printf("%s: %d squared is %d\n", s.Worker, s.N, s.Square)
		sum += s.Square
	}
	fmt.Println("The sum of the squares is", sum)
	return nil
}

// squareAll squares the numbers below n in several processes and returns the
// results in the order in which they come.
func squareAll(ctx context.Context, workers, n int) ([]square, error) {
	jobs, err := fiber.NewSimpleQueue[job]()
	if err != nil {
		return nil, err
	}
	results, err := fiber.NewSimpleQueue[square]()
	if err != nil {
		return nil, err
	}
	ends := make([]*fiber.Future[struct{}], workers)
	for i := range ends {
		ends[i] = fiber.Go(ctx, work, queues{jobs, results}, fiber.WithName(fmt.Sprintf("Worker-%d", i+1)))
	}
	for i := range n {
		if err := jobs.Put(ctx, job{i}); err != nil {
			return nil, err
		}
	}
	squares := make([]square, n)
	for i := range squares {
		if squares[i], err = results.Get(ctx); err != nil {
			return nil, err
		}
	}
	jobs.Close() // this ends the workers
	for _, end := range ends {
		if _, err := end.Get(ctx); err != nil {
			return nil, err
		}
	}
	return squares, nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Queue starts some processes that get numbers from one queue and put their
squares into another. Which process squares which number is up to chance.

	go run ./examples/queue -workers 4 -jobs 20

Flags:
`)
	flag.PrintDefaults()
}
