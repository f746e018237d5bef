package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// approach looks for the least of the sum of (x-t)² over all targets t, of which
// each rank knows one. The gradients are averaged, so that x is the same on all
// ranks.
var approach = fiber.RegisterRing("approach", nil, func(ctx context.Context, node *fiber.RingNode, targets []float64) error {
	x := []float64{0}
	for range 50 {
		gradient := []float64{2 * (x[0] - targets[node.Rank()])}
		if err := fiber.AllReduce(ctx, node, gradient, fiber.Mean); err != nil {
			return err
		}
		x[0] -= 0.25 * gradient[0]
	}
	if node.Rank() == 0 {
		fmt.Printf("x = %.3f\n", x[0])
	}
	return nil
})

func ExampleAllReduce() {
	fmt.Println(fiber.NewRing(3, approach).Run(context.Background(), []float64{1, 2, 6}))
	// Output:
	// x = 3.000
	// <nil>
}
