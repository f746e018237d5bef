package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

func ExampleRLock() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	lock, err := fiber.NewRLock(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	inner := func(ctx context.Context) error {
		fmt.Println("twice")
		return nil
	}
	outer := func(ctx context.Context) error {
		fmt.Println("once")
		return lock.With(ctx, inner)
	}
	fmt.Println(lock.With(ctx, outer))
	fmt.Println(lock.Release(ctx))
	// Output:
	// once
	// twice
	// <nil>
	// fiber: the lock is not held here: nobody holds it
}
