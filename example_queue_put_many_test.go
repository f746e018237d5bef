package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var addUp = fiber.Register("addUp", func(ctx context.Context, numbers *fiber.SimpleQueue[int]) (sum int, err error) {
	for got := 0; got < 10_000; {
		some, err := numbers.GetMany(ctx, 1000) // as many as there are, but at least one
		if err != nil {
			return 0, err
		}
		for _, n := range some {
			sum += n
		}
		got += len(some)
	}
	return sum, nil
})

// Many small items travel together.
func ExampleSimpleQueue_PutMany() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	queue, err := fiber.NewSimpleQueue[int](fiber.WithCapacity(2000)) // PutMany waits when it is full
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close()
	sum := fiber.ApplyAsync(ctx, pool, addUp, queue)
	ones := make([]int, 10_000)
	for i := range ones {
		ones[i] = 1
	}
	if err := queue.PutMany(ctx, ones); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum.Get(ctx))
	// Output: 10000 <nil>
}
