package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

var cube = fiber.Register("cube", func(ctx context.Context, x int) (int, error) {
	return x * x * x, nil
})

func ExampleMap() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	cubes, err := fiber.Map(ctx, pool, cube, []int{1, 2, 3, 4})
	fmt.Println(cubes, err)
	// Output: [1 8 27 64] <nil>
}

// patrol runs until its context ends.
var patrol = fiber.Register("patrol", func(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
})

// When the caller's context ends, Map returns at once, and in the workers the
// contexts of its tasks end.
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

var halve = fiber.Register("halve", func(ctx context.Context, x float64) (float64, error) {
	return x / 2, nil
})

func ExampleMapAsync() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	first := fiber.MapAsync(ctx, pool, halve, []float64{2, 4})
	second := fiber.MapAsync(ctx, pool, halve, []float64{3, 5})
	fmt.Println(second.Get(ctx))
	fmt.Println(first.Get(ctx))
	// Output:
	// [1.5 2.5] <nil>
	// [1 2] <nil>
}

var isPrime = fiber.Register("isPrime", func(ctx context.Context, n int) (bool, error) {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false, nil
		}
	}
	return n > 1, nil
})

// A worker is handed 50 tasks together. By default their number adapts, to as
// many as run for some milliseconds. The size of the chunks changes the speed,
// not the results.
func ExampleChunkSize() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	numbers := make([]int, 1000)
	for i := range numbers {
		numbers[i] = i
	}
	primes, err := fiber.Map(ctx, pool, isPrime, numbers, fiber.ChunkSize(50))
	n := 0
	for _, prime := range primes {
		if prime {
			n++
		}
	}
	fmt.Println(n, "primes below 1000", err)
	// Output: 168 primes below 1000 <nil>
}

var negate = fiber.Register("negate", func(ctx context.Context, x int) (int, error) { return -x, nil })

// OnProgress calls the function as results arrive, one call after another. The
// last call ends before Map returns.
func ExampleOnProgress() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	var last string
	_, err = fiber.Map(ctx, pool, negate, make([]int, 500), fiber.OnProgress(func(p fiber.Progress) {
		last = fmt.Sprintf("%d of %d", p.Done, p.Total)
	}))
	fmt.Println(last, err)
	// Output: 500 of 500 <nil>
}
