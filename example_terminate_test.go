package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

var loop = fiber.Register("loop", func(ctx context.Context, _ struct{}) (struct{}, error) {
	<-ctx.Done() // Terminate ends it, and there is a second for tidying up
	return struct{}{}, ctx.Err()
})

func ExampleProcess_Terminate() {
	ctx := context.Background()
	p := fiber.NewProcess(loop, struct{}{})
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Terminate(); err != nil {
		fmt.Println(err)
		return
	}
	var exit *fiber.ExitError
	if errors.As(p.Join(ctx), &exit) {
		fmt.Println(exit.Signal, exit.Code)
	}
	// Output: terminated 143
}
