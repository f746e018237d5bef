package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type bucket struct {
	Histogram *fiber.Array[int]
	Sample    float64 // from 0 to 1
}

var countSample = fiber.Register("countSample", func(ctx context.Context, b bucket) (int, error) {
	return b.Histogram.Update(ctx, int(b.Sample*4), func(n int) (int, error) { return n + 1, nil })
})

func ExampleArray() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	histogram, err := fiber.NewArray(ctx, m, make([]int, 4))
	if err != nil {
		fmt.Println(err)
		return
	}
	var samples []bucket
	for _, x := range []float64{0.1, 0.9, 0.3, 0.2, 0.8, 0.95} {
		samples = append(samples, bucket{histogram, x})
	}
	if _, err := fiber.Map(ctx, pool, countSample, samples); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(histogram.Slice(ctx, 0, 4))
	// Output: [2 1 0 3] <nil>
}
