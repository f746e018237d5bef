package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

func ExampleSemaphore() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	seats, err := fiber.NewSemaphore(ctx, m, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		fmt.Println(seats.TryAcquire(ctx))
	}
	if err := seats.Release(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(seats.Permits(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// 1 <nil>
}
