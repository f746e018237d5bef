package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

func ExamplePool_Resize() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	fmt.Println(pool.WaitUntilWorkersUp(ctx), pool.Stats().Ready, "ready")
	fmt.Println(pool.Resize(ctx, 3), pool.Stats().Ready, "ready")
	fmt.Println(pool.Resize(ctx, 2), pool.Stats().Ready, "ready")
	// Output:
	// <nil> 1 ready
	// <nil> 3 ready
	// <nil> 2 ready
}
