package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var cube = fiber.Register("cube", func(ctx context.Context, x int) (int, error) {
	return x * x * x, nil
})

func ExampleMap() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	cubes, err := fiber.Map(ctx, pool, cube, []int{1, 2, 3, 4})
	fmt.Println(cubes, err)
	// Output: [1 8 27 64] <nil>
}
