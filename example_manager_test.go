package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

// moneyBox lives in a manager. Its methods need no lock: those of one object
// run one after another.
type moneyBox struct{ balance int }

func (a *moneyBox) PutIn(ctx context.Context, amount int) (int, error) {
	a.balance += amount
	return a.balance, nil
}

var (
	moneyBoxes = fiber.RegisterType("moneyBox", func(ctx context.Context, balance int) (*moneyBox, error) {
		return &moneyBox{balance}, nil
	})
	putIn = fiber.RegisterMethod("PutIn", (*moneyBox).PutIn)
)

// saveOne puts one into a box that is in another process.
var saveOne = fiber.Register("saveOne", func(ctx context.Context, a *fiber.Proxy[*moneyBox]) (int, error) {
	return fiber.Call(ctx, a, putIn, 1)
})

func ExampleManager() {
	ctx := context.Background()
	manager, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	mine, err := fiber.New(ctx, manager, moneyBoxes, 100)
	if err != nil {
		fmt.Println(err)
		return
	}

	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	proxies := make([]*fiber.Proxy[*moneyBox], 50)
	for i := range proxies {
		proxies[i] = mine
	}
	if _, err := fiber.Map(ctx, pool, saveOne, proxies); err != nil {
		fmt.Println(err)
		return
	}
	balance, err := fiber.Call(ctx, mine, putIn, 0)
	fmt.Println(balance, err)
	// Output: 150 <nil>
}
