package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// account is a balance in two parts that belong together.
type account struct {
	Lock    *fiber.Lock
	Dollars *fiber.Value[int]
	Cents   *fiber.Value[int]
}

var deposit = fiber.Register("deposit", func(ctx context.Context, a account) (struct{}, error) {
	return struct{}{}, a.Lock.With(ctx, func(ctx context.Context) error {
		dollars, err := a.Dollars.Get(ctx)
		if err != nil {
			return err
		}
		cents, err := a.Cents.Get(ctx)
		if err != nil {
			return err
		}
		if cents += 60; cents >= 100 {
			if err := a.Dollars.Set(ctx, dollars+cents/100); err != nil {
				return err
			}
		}
		return a.Cents.Set(ctx, cents%100)
	})
})

func ExampleLock() {
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

	var a account
	if a.Lock, err = fiber.NewLock(ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if a.Dollars, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	if a.Cents, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := fiber.Map(ctx, pool, deposit, []account{a, a, a, a, a}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Dollars.Get(ctx))
	fmt.Println(a.Cents.Get(ctx))
	// Output:
	// 3 <nil>
	// 0 <nil>
}
