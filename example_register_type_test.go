package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fiber-go/fiber"
)

// phoneBook is registered as safe for concurrent calls, and so has a lock of
// its own: a lookup does not wait for another one.
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

// Close is called when nobody has a proxy of it any more.
func (b *phoneBook) Close() error { return nil }

var (
	phoneBooks = fiber.RegisterType("phoneBook", func(ctx context.Context, first listing) (*phoneBook, error) {
		return &phoneBook{numbers: map[string]string{first.Name: first.Number}}, nil
	}, fiber.ConcurrentCalls())
	enter  = fiber.RegisterMethod("Enter", (*phoneBook).Enter)
	lookUp = fiber.RegisterMethod("LookUp", (*phoneBook).LookUp)

	errNotListed = fiber.RegisterError(errors.New("not listed"))
)

func ExampleRegisterType() {
	ctx := context.Background()
	manager, err := fiber.NewManager(ctx, fiber.ManagerName("Directory"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()
	book, err := fiber.New(ctx, manager, phoneBooks, listing{"Ada", "1815"})
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
