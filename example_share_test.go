package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// row names one row of a matrix. The matrix itself does not travel with it, only
// a reference to it does.
type row struct {
	Matrix *fiber.Shared[[][]float64]
	Index  int
}

var sumRow = fiber.Register("sumRow", func(ctx context.Context, r row) (float64, error) {
	matrix, err := r.Matrix.Get(ctx) // fetched once by each worker
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, x := range matrix[r.Index] {
		sum += x
	}
	return sum, nil
})

// concatenated returns two texts as one.
var concatenated = fiber.Register("concatenated", func(ctx context.Context, pair [2]*fiber.Shared[string]) (*fiber.Shared[string], error) {
	a, err := pair[0].Get(ctx)
	if err != nil {
		return nil, err
	}
	b, err := pair[1].Get(ctx)
	if err != nil {
		return nil, err
	}
	return fiber.Share(ctx, a+b)
})

func ExampleReduce() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	var parts []*fiber.Shared[string]
	for _, text := range []string{"a ", "tree ", "of ", "tasks"} {
		part, err := fiber.Share(ctx, text)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer part.Close()
		parts = append(parts, part)
	}
	all, err := fiber.Reduce(ctx, pool, concatenated, parts)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := all.Get(ctx)
	fmt.Println(text, err)
	// Output: a tree of tasks <nil>
}

func ExampleShare() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	matrix, err := fiber.Share(ctx, [][]float64{{1, 2}, {3, 4}, {5, 6}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer matrix.Close()
	sums, err := fiber.Map(ctx, pool, sumRow, []row{{matrix, 0}, {matrix, 1}, {matrix, 2}})
	fmt.Println(sums, err)
	// Output: [3 7 11] <nil>
}
