package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

// patrol goes on until its context ends.
var patrol = fiber.Register("patrol", func(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
})

// When the caller's context ends the call returns at once, and the contexts
// of its tasks end in the workers.
func ExampleMap_cancel() {
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = fiber.Map(ctx, pool, patrol, make([]int, 10))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}
