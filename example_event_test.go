package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type footrace struct {
	Gun    *fiber.Event
	Runner string
}

var awaitGun = fiber.Register("awaitGun", func(ctx context.Context, r footrace) (string, error) {
	if err := r.Gun.Wait(ctx); err != nil {
		return "", err
	}
	return r.Runner + " runs", nil
})

func ExampleEvent() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	gun, err := fiber.NewEvent(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	running := fiber.MapAsync(ctx, pool, awaitGun, []footrace{{gun, "Ada"}, {gun, "Grace"}}, fiber.ChunkSize(1))
	fmt.Println(running.Ready())
	if err := gun.Set(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(running.Get(ctx))
	// Output:
	// false
	// [Ada runs Grace runs] <nil>
}
