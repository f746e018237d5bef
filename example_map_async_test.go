package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var halve = fiber.Register("halve", func(ctx context.Context, x float64) (float64, error) {
	return x / 2, nil
})

func ExampleMapAsync() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	first := fiber.MapAsync(ctx, pool, halve, []float64{2, 4})
	second := fiber.MapAsync(ctx, pool, halve, []float64{3, 5})
	fmt.Println(second.Get(ctx))
	fmt.Println(first.Get(ctx))
	// Output:
	// [1.5 2.5] <nil>
	// [1 2] <nil>
}
