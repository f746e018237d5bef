package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
)

// moneyBox lives in a manager. Its methods need no lock: the calls on one object
// run one after another.
type moneyBox struct{ balance int }

func (b *moneyBox) PutIn(ctx context.Context, amount int) (int, error) {
	b.balance += amount
	return b.balance, nil
}

var (
	moneyBoxes = fiber.RegisterType("moneyBox", func(ctx context.Context, balance int) (*moneyBox, error) {
		return &moneyBox{balance}, nil
	})
	putIn = fiber.RegisterMethod("PutIn", (*moneyBox).PutIn)
)

// saveOne puts one into a box that lives in another process.
var saveOne = fiber.Register("saveOne", func(ctx context.Context, b *fiber.Proxy[*moneyBox]) (int, error) {
	return fiber.Call(ctx, b, putIn, 1)
})

func ExampleManager() {
	ctx := context.Background()
	manager, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	mine, err := fiber.NewObject(ctx, manager, moneyBoxes, 100)
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

// phoneBook is registered with WithConcurrentCalls, and so needs a lock of its own.
// Lookups do not wait for one another.
type phoneBook struct {
	mu      sync.RWMutex
	numbers map[string]string
}

type listing struct{ Name, Number string }

func (b *phoneBook) Enter(ctx context.Context, l listing) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.numbers[l.Name] = l.Number
	return len(b.numbers), nil
}

func (b *phoneBook) LookUp(ctx context.Context, name string) (string, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	number, ok := b.numbers[name]
	if !ok {
		return "", errNotListed
	}
	return number, nil
}

// Close is called when no proxy of the object is left, or its manager is closed.
func (b *phoneBook) Close() error { return nil }

var (
	phoneBooks = fiber.RegisterType("phoneBook", func(ctx context.Context, first listing) (*phoneBook, error) {
		return &phoneBook{numbers: map[string]string{first.Name: first.Number}}, nil
	}, fiber.WithConcurrentCalls())
	enter  = fiber.RegisterMethod("Enter", (*phoneBook).Enter)
	lookUp = fiber.RegisterMethod("LookUp", (*phoneBook).LookUp)

	errNotListed = fiber.RegisterError(errors.New("not listed"))
)

func ExampleRegisterType() {
	ctx := context.Background()
	manager, err := fiber.NewManager(ctx, fiber.WithName("Directory"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	book, err := fiber.NewObject(ctx, manager, phoneBooks, listing{"Ada", "1815"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fiber.Call(ctx, book, enter, listing{"Alan", "1912"}))
	fmt.Println(fiber.Call(ctx, book, lookUp, "Ada"))
	_, err = fiber.Call(ctx, book, lookUp, "Grace")
	fmt.Println(errors.Is(err, errNotListed))
	// Output:
	// 2 <nil>
	// 1815 <nil>
	// true
}

// simulation has a method that takes a while.
type simulation struct{ seed int }

func (s *simulation) Run(ctx context.Context, d time.Duration) (string, error) {
	select {
	case <-time.After(d):
		return fmt.Sprintf("run %d is done", s.seed), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

var (
	simulations = fiber.RegisterType("simulation", func(ctx context.Context, seed int) (*simulation, error) {
		return &simulation{seed}, nil
	})
	runFor = fiber.RegisterMethod("Run", (*simulation).Run)
)

// Three objects work at the same time. The caller waits when it needs a result,
// in any order.
func ExampleCallAsync() {
	ctx := context.Background()
	manager, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()

	var futures []*fiber.Future[string]
	for seed := range 3 {
		s, err := fiber.NewObject(ctx, manager, simulations, seed)
		if err != nil {
			fmt.Println(err)
			return
		}
		futures = append(futures, fiber.CallAsync(ctx, s, runFor, 10*time.Millisecond))
	}
	for _, i := range []int{2, 0, 1} {
		fmt.Println(futures[i].Get(ctx))
	}
	// Output:
	// run 2 is done <nil>
	// run 0 is done <nil>
	// run 1 is done <nil>
}
