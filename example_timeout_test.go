package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

// dawdle waits for an hour, or for its context.
var dawdle = fiber.Register("dawdle", func(ctx context.Context, _ struct{}) (string, error) {
	select {
	case <-time.After(time.Hour):
		return "slept well", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
})

func ExampleTimeout() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, dawdle, struct{}{}, fiber.Timeout(50*time.Millisecond))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}
