// Command queue has several processes take numbers out of one queue and put
// their squares into another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/fiber-go/fiber"
)

// job is a number to be squared, and square is what a worker made of it.
type (
	job    struct{ N int }
	square struct {
		N, Square int
		Worker    string
	}
)

// queues are where a worker gets its jobs and puts its results.
type queues struct {
	Jobs    *fiber.SimpleQueue[job]
	Squares *fiber.SimpleQueue[square]
}

// work squares numbers until there will be no more.
var work = fiber.Register("work", func(ctx context.Context, q queues) (struct{}, error) {
	for {
		j, err := q.Jobs.Get(ctx)
		if errors.Is(err, fiber.ErrClosed) {
			return struct{}{}, nil
		}
		if err != nil {
			return struct{}{}, err
		}
		if err := q.Squares.Put(ctx, square{j.N, j.N * j.N, fiber.CurrentProcess().Name()}); err != nil {
			return struct{}{}, err
		}
	}
})

var (
	workers = flag.Int("workers", 3, "number of processes")
	jobs    = flag.Int("jobs", 12, "number of numbers")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("queue takes only flags, not %q; -h lists them", flag.Args())
	case *workers < 1:
		return fmt.Errorf("-workers: there has to be one at least, not %d", *workers)
	case *jobs < 0:
		return fmt.Errorf("-jobs: %d is no number of numbers", *jobs)
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

// squareAll has so many processes square the numbers below n, and gives the
// results as they come.
func squareAll(ctx context.Context, workers, n int) ([]square, error) {
	jobs, err := fiber.NewSimpleQueue[job]()
	if err != nil {
		return nil, err
	}
	results, err := fiber.NewSimpleQueue[square]()
	if err != nil {
		return nil, err
	}
	processes := make([]*fiber.Process, workers)
	for i := range processes {
		processes[i] = fiber.NewProcess(work, queues{jobs, results}, fiber.ProcessName(fmt.Sprintf("Worker-%d", i+1)))
		if err := processes[i].Start(ctx); err != nil {
			return nil, err
		}
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
	for _, p := range processes {
		if err := p.Join(ctx); err != nil {
			return nil, err
		}
	}
	return squares, nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Queue starts some processes that get numbers out of one queue and put their
squares into another. Which process squares which number is up to chance.

	go run ./examples/queue -workers 4 -jobs 20

Flags:
`)
	flag.PrintDefaults()
}
