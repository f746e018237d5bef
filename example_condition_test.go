package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type shelf struct {
	Changed *fiber.Condition
	Loaves  *fiber.List[string]
}

var bake = fiber.Register("bake", func(ctx context.Context, s shelf) (struct{}, error) {
	return struct{}{}, s.Changed.With(ctx, func(ctx context.Context) error {
		if err := s.Loaves.Append(ctx, "rye"); err != nil {
			return err
		}
		return s.Changed.Notify(ctx, 1)
	})
})

func ExampleCondition() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	var s shelf
	if s.Changed, err = fiber.NewCondition(ctx, m, nil); err != nil {
		fmt.Println(err)
		return
	}
	if s.Loaves, err = fiber.NewList[string](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(bake, s)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	err = s.Changed.With(ctx, func(ctx context.Context) error {
		err := s.Changed.WaitFor(ctx, func() (bool, error) {
			n, err := s.Loaves.Len(ctx)
			return n > 0, err
		})
		if err != nil {
			return err
		}
		fmt.Println(s.Loaves.Pop(ctx, 0))
		return nil
	})
	fmt.Println(err, p.Join(ctx))
	// Output:
	// rye <nil>
	// <nil> <nil>
}
