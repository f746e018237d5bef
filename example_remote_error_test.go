package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

var divide = fiber.Register("divide", func(ctx context.Context, by int) (int, error) {
	return 100 / by, nil
})

// An error that the function returns, and a panic, is a RemoteError here. The
// function is not tried again, and its worker goes on.
func ExampleRemoteError() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, divide, 0)
	var remote *fiber.RemoteError
	if errors.As(err, &remote) {
		fmt.Println(remote.Func, "failed:", remote.Message)
		fmt.Println("it panicked:", remote.Stack != "")
	}
	fmt.Println(fiber.Apply(ctx, pool, divide, 4))
	// Output:
	// divide failed: runtime error: integer divide by zero
	// it panicked: true
	// 25 <nil>
}
