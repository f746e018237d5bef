package fiber_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

// dart says whether a dart lands in the circle. The throw depends on i alone,
// so that the example always ends with the same estimate.
var dart = fiber.Register("dart", func(ctx context.Context, i int) (bool, error) {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	x, y := rng.Float64(), rng.Float64()
	return x*x+y*y < 1, nil
}, meta.CPU(1))

// Two processes estimate Pi by throwing darts.
func Example() {
	ctx := context.Background() // in a program, the context that fiber.Main passes
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	throws := make([]int, 100_000)
	for i := range throws {
		throws[i] = i
	}
	hits, err := fiber.Map(ctx, pool, dart, throws)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	for _, hit := range hits {
		if hit {
			n++
		}
	}
	fmt.Printf("Pi is roughly %.2f\n", 4*float64(n)/float64(len(hits)))
	// Output: Pi is roughly 3.14
}
