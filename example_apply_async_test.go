package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var factorial = fiber.Register("factorial", func(ctx context.Context, n int) (int, error) {
	product := 1
	for i := 2; i <= n; i++ {
		product *= i
	}
	return product, nil
})

func ExampleApplyAsync() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	var futures []*fiber.Future[int]
	for n := range 5 {
		futures = append(futures, fiber.ApplyAsync(ctx, pool, factorial, n))
	}
	for n, future := range futures {
		product, err := future.Get(ctx)
		fmt.Println(n, product, err)
	}
	// Output:
	// 0 1 <nil>
	// 1 1 <nil>
	// 2 2 <nil>
	// 3 6 <nil>
	// 4 24 <nil>
}
