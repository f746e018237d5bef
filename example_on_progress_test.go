package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var negate = fiber.Register("negate", func(ctx context.Context, x int) (int, error) { return -x, nil })

// The function is called as results come, never twice at a time, and for the
// last time before Map returns.
func ExampleOnProgress() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	var last string
	_, err = fiber.Map(ctx, pool, negate, make([]int, 500), fiber.OnProgress(func(done, total int) {
		last = fmt.Sprintf("%d of %d", done, total)
	}))
	fmt.Println(last, err)
	// Output: 500 of 500 <nil>
}
