package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type result struct {
	Best  *fiber.Value[float64]
	Score float64
}

var reportScore = fiber.Register("reportScore", func(ctx context.Context, s result) (float64, error) {
	return s.Best.Update(ctx, func(best float64) (float64, error) { return max(best, s.Score), nil })
})

func ExampleValue() {
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

	best, err := fiber.NewValue(ctx, m, 0.0)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := fiber.Map(ctx, pool, reportScore, []result{{best, 0.25}, {best, 0.75}, {best, 0.5}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(best.Get(ctx))
	// Output: 0.75 <nil>
}
