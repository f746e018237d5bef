package fiber_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

var brew = fiber.Register("brew", func(ctx context.Context, cup int) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return cup, nil
})

// No worker while there is nothing to do, and four at most.
func ExampleWithAutoscale() {
	ctx := context.Background()
	pool, err := fiber.NewPool(0, fiber.WithAutoscale(0, 4), fiber.WithIdleTimeout(100*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	cups, err := fiber.Map(ctx, pool, brew, make([]int, 20))
	fmt.Println(len(cups), "cups", err)

	started := pool.Stats().WorkersStarted
	fmt.Println("some workers were started:", started >= 1 && started <= 4)
	for pool.Stats().Ready > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("none is left")
	// Output:
	// 20 cups <nil>
	// some workers were started: true
	// none is left
}
