package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fiber-go/fiber"
)

// fragile takes its process down on one input.
var fragile = fiber.Register("fragile", func(ctx context.Context, n int) (int, error) {
	if n == 13 {
		os.Exit(7)
	}
	return n, nil
})

// A task that ends its worker is tried three times, each time alone in its
// process, and given up. The pool goes on with new workers.
func ExampleWorkerLostError() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, fragile, 13)
	var lost *fiber.WorkerLostError
	if errors.As(err, &lost) {
		fmt.Println(lost.Func, "ended its worker with exit code", lost.ExitCode)
		fmt.Println("attempt", lost.Attempt, "of", lost.Attempts)
	}
	fmt.Println(fiber.Apply(ctx, pool, fragile, 14))
	// Output:
	// fragile ended its worker with exit code 7
	// attempt 3 of 3
	// 14 <nil>
}
