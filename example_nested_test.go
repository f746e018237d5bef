package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var leaf = fiber.Register("leaf", func(ctx context.Context, name string) (struct{}, error) {
	fmt.Println(name, "is a child of", fiber.ParentProcess().Name())
	return struct{}{}, nil
})

// branch starts processes of its own and waits for them.
var branch = fiber.Register("branch", func(ctx context.Context, leaves []string) (struct{}, error) {
	for _, name := range leaves {
		p := fiber.NewProcess(leaf, name, fiber.ProcessName(name))
		if err := p.Start(ctx); err != nil {
			return struct{}{}, err
		}
		if err := p.Join(ctx); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

// Every process of a program may start others, and use pools.
func ExampleProcess_nested() {
	ctx := context.Background()
	p := fiber.NewProcess(branch, []string{"leaf 1", "leaf 2"}, fiber.ProcessName("branch"))
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Join(ctx))
	// Output:
	// leaf 1 is a child of branch
	// leaf 2 is a child of branch
	// <nil>
}
