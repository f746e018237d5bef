// Command pi estimates π by throwing darts at a square, on a pool of
// processes.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var inside = fiber.Register("inside", func(ctx context.Context, i int) (bool, error) {
	x, y := rand.Float64(), rand.Float64()
	return x*x+y*y < 1, nil
}, meta.CPU(1))

var (
	samples = flag.Int("samples", 1_000_000, "how many darts to throw")
	workers = flag.Int("workers", 4, "how many processes throw them; 0 for one per CPU")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("pi takes only flags, not %q; -h lists them", flag.Args())
	}
	pi, err := estimate(ctx, *samples, *workers)
	if err != nil {
		return err
	}
	fmt.Printf("Pi is roughly %v\n", pi)
	return nil
}

// estimate throws the darts on a pool. Of the darts that hit the unit square, a
// share of π/4 lies within a quarter of the unit circle.
func estimate(ctx context.Context, samples, workers int) (float64, error) {
	if samples < 1 || samples > 1e9 {
		return 0, fmt.Errorf("-samples %d: it must be from 1 to 1,000,000,000", samples)
	}
	pool, err := fiber.NewPool(workers)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	hits, err := fiber.Map(ctx, pool, inside, make([]int, samples))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, hit := range hits {
		if hit {
			n++
		}
	}
	return 4 * float64(n) / float64(len(hits)), nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Pi estimates π by throwing darts at a square, on a pool of processes.

	go run ./examples/pi -samples 10000000 -workers 2

Flags:
`)
	flag.PrintDefaults()
}
