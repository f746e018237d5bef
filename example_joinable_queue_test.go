package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type workshop struct {
	Orders *fiber.JoinableQueue[int]
	Made   *fiber.Value[int]
}

// assemble makes what is ordered, for ever.
var assemble = fiber.Register("assemble", func(ctx context.Context, b workshop) (struct{}, error) {
	for {
		n, err := b.Orders.Get(ctx)
		if err != nil {
			return struct{}{}, err
		}
		if _, err := b.Made.Update(ctx, func(made int) (int, error) { return made + n, nil }); err != nil {
			return struct{}{}, err
		}
		if err := b.Orders.TaskDone(ctx); err != nil {
			return struct{}{}, err
		}
	}
})

func ExampleJoinableQueue() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	var b workshop
	if b.Orders, err = fiber.NewJoinableQueue[int](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if b.Made, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		p := fiber.NewProcess(assemble, b)
		if err := p.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		defer p.Kill()
	}
	if err := b.Orders.PutMany(ctx, []int{1, 2, 3, 4}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.Orders.Join(ctx)) // all are done
	fmt.Println(b.Made.Get(ctx))
	// Output:
	// <nil>
	// 10 <nil>
}
