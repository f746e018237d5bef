package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type greeter struct {
	Names     *fiber.Queue[string]
	Greetings *fiber.Queue[string]
}

var greetAll = fiber.Register("greetAll", func(ctx context.Context, g greeter) (struct{}, error) {
	for {
		name, err := g.Names.Get(ctx)
		if err != nil || name == "" {
			return struct{}{}, err
		}
		if err := g.Greetings.Put(ctx, "Hello, "+name); err != nil {
			return struct{}{}, err
		}
	}
})

// A Queue lives in its manager: it goes on when the process that made it has
// ended.
func ExampleQueue() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	var g greeter
	if g.Names, err = fiber.NewQueue[string](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if g.Greetings, err = fiber.NewQueue[string](ctx, m, fiber.WithCapacity(10)); err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(greetAll, g)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := g.Names.PutMany(ctx, []string{"Ada", "Grace", ""}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Greetings.Get(ctx))
	fmt.Println(g.Greetings.Get(ctx))
	fmt.Println(p.Join(ctx))
	// Output:
	// Hello, Ada <nil>
	// Hello, Grace <nil>
	// <nil>
}
