package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/fiber-go/fiber"
)

// steps counts the steps from n to 1 when an even number is halved and an odd
// one becomes 3n+1.
var steps = fiber.Register("steps", func(ctx context.Context, n int) (int, error) {
	count := 0
	for ; n != 1; count++ {
		if n%2 == 0 {
			n /= 2
		} else {
			n = 3*n + 1
		}
	}
	return count, nil
})

// upward yields n, n+1 and so on, without end.
func upward(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; yield(n); n++ {
		}
	}
}

// The input is endless. Leaving the loop ends the work.
func ExampleIMap() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	n := 0
	for count, err := range fiber.IMap(ctx, pool, steps, upward(1)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if n++; count > 100 {
			fmt.Printf("%d is the first that takes more than 100 steps: %d\n", n, count)
			break
		}
	}
	// Output: 27 is the first that takes more than 100 steps: 111
}

var reciprocal = fiber.Register("reciprocal", func(ctx context.Context, x float64) (float64, error) {
	if x == 0 {
		return 0, errors.New("zero has none")
	}
	return 1 / x, nil
})

// Each result comes with its input, as soon as it is there.
func ExampleResults() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	for r, err := range fiber.Results(ctx, pool, reciprocal, slices.Values([]float64{2, 0})) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.In, r.Out, r.Err != nil, r.Attempts)
	}
	// Unordered output:
	// 2 0.5 false 1
	// 0 0 true 1
}

// A task that fails yields its error, and the loop goes on with the other tasks.
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
