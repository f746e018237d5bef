package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var isPrime = fiber.Register("isPrime", func(ctx context.Context, n int) (bool, error) {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false, nil
		}
	}
	return n > 1, nil
})

// Chunks of 50 tasks, instead of as many as turn out to run for some
// milliseconds. It changes how fast it goes, not what comes out.
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
