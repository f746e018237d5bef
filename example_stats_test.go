package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

var pickEven = fiber.Register("pickEven", func(ctx context.Context, n int) (int, error) {
	if n%2 != 0 {
		return 0, errors.New("odd")
	}
	return n, nil
})

func ExamplePool_Stats() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2, fiber.WithName("picker"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, worker := range pool.Stats().Processes {
		fmt.Println("a worker is", worker.State) // worker.Name is picker-1, and so on
	}

	for n := range 5 {
		fiber.Apply(ctx, pool, pickEven, n)
	}
	pool.Close()
	stats := pool.Stats()
	fmt.Println(stats.Done, "tasks done,", stats.Failed, "failed")
	fmt.Println(stats.WorkersStarted, "workers started,", stats.WorkersLost, "lost")
	// Output:
	// a worker is ready
	// a worker is ready
	// 3 tasks done, 2 failed
	// 2 workers started, 0 lost
}
