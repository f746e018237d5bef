package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type phase struct {
	Barrier *fiber.CyclicBarrier
	Sums    *fiber.Array[int]
	Index   int
}

// solvePart works in two phases: the second needs what all did in the first.
var solvePart = fiber.Register("solvePart", func(ctx context.Context, p phase) (int, error) {
	if err := p.Sums.Set(ctx, p.Index, 10*p.Index); err != nil {
		return 0, err
	}
	if _, err := p.Barrier.Wait(ctx); err != nil {
		return 0, err // ErrBrokenBarrier, when one of the others died
	}
	sums, err := p.Sums.Slice(ctx, 0, 3)
	if err != nil {
		return 0, err
	}
	return sums[0] + sums[1] + sums[2] + p.Index, nil
})

func ExampleCyclicBarrier() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	barrier, err := fiber.NewBarrier(ctx, m, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	sums, err := fiber.NewArray(ctx, m, make([]int, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	parts := []phase{{barrier, sums, 0}, {barrier, sums, 1}, {barrier, sums, 2}}
	fmt.Println(fiber.Map(ctx, pool, solvePart, parts, fiber.ChunkSize(1)))
	// Output: [30 31 32] <nil>
}
