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
	workers = flag.Int("workers", 4, "how many processes throw them")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Parse()
	pool, err := fiber.NewPool(*workers)
	if err != nil {
		return err
	}
	defer pool.Close()
	hits, err := fiber.Map(ctx, pool, inside, make([]int, *samples))
	if err != nil {
		return err
	}
	n := 0
	for _, hit := range hits {
		if hit {
			n++
		}
	}
	fmt.Printf("Pi is roughly %v\n", 4*float64(n)/float64(len(hits)))
	return nil
}
