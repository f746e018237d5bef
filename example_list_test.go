package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

var divisors = fiber.Register("divisors", func(ctx context.Context, d division) (struct{}, error) {
	for i := 1; i <= d.Number; i++ {
		if d.Number%i != 0 {
			continue
		}
		if err := d.Found.Append(ctx, i); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, nil
})

type division struct {
	Number int
	Found  *fiber.List[int]
}

func ExampleList() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	found, err := fiber.NewList[int](ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(divisors, division{12, found})
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Join(ctx); err != nil {
		fmt.Println(err)
		return
	}
	all, err := found.All(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, d := range all {
		fmt.Println(i, d)
	}
	_, err = found.Get(ctx, 6)
	fmt.Println(err)
	// Output:
	// 0 1
	// 1 2
	// 2 3
	// 3 4
	// 4 6
	// 5 12
	// fiber: the list: there is no index 6; the length is 6
}
