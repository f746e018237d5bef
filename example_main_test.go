package fiber_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

// A whole program: in the first process Main calls the function; in the
// processes that Fiber starts it does their work instead.
func ExampleMain() {
	fiber.Main(func(ctx context.Context) error {
		fmt.Println("this is printed once, whatever the number of processes")
		return nil
	}, fiber.Config{HeartbeatTimeout: time.Minute})
}
