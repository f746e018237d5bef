package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

func ExampleNamespace() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	settings, err := fiber.NewNamespace(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := settings.Set(ctx, "rate", 0.5); err != nil {
		fmt.Println(err)
		return
	}
	if err := settings.Set(ctx, "layers", []int{64, 10}); err != nil {
		fmt.Println(err)
		return
	}
	var rate float64
	var layers []int
	found, err := settings.Get(ctx, "rate", &rate)
	fmt.Println(rate, found, err)
	found, err = settings.Get(ctx, "layers", &layers)
	fmt.Println(layers, found, err)
	found, err = settings.Get(ctx, "seed", new(int))
	fmt.Println(found, err)
	// Output:
	// 0.5 true <nil>
	// [64 10] true <nil>
	// false <nil>
}
