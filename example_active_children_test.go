package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var idle = fiber.Register("idle", func(ctx context.Context, _ struct{}) (struct{}, error) {
	<-ctx.Done()
	return struct{}{}, nil
})

func ExampleActiveChildren() {
	ctx := context.Background()
	for _, name := range []string{"left", "right"} {
		p := fiber.NewProcess(idle, struct{}{}, fiber.ProcessName(name))
		if err := p.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, child := range fiber.ActiveChildren() {
		fmt.Println(child.Name())
		child.Kill()
		<-child.Done()
	}
	fmt.Println(len(fiber.ActiveChildren()), "are left")
	// Output:
	// left
	// right
	// 0 are left
}
