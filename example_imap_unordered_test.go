package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fiber-go/fiber"
)

var reciprocal = fiber.Register("reciprocal", func(ctx context.Context, x float64) (float64, error) {
	if x == 0 {
		return 0, errors.New("zero has none")
	}
	return 1 / x, nil
})

// A task that fails yields its error, and the loop goes on with the others.
func ExampleIMapUnordered() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	sum, failed := 0.0, 0
	for y, err := range fiber.IMapUnordered(ctx, pool, reciprocal, slices.Values([]float64{1, 2, 0, 4})) {
		if err != nil {
			failed++
			continue
		}
		sum += y
	}
	fmt.Println(sum, "and", failed, "failed")
	// Output: 1.75 and 1 failed
}
