package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fiber-go/fiber"
)

// seize takes a lock and is killed while it holds it.
var seize = fiber.Register("seize", func(ctx context.Context, lock *fiber.Lock) (struct{}, error) {
	if err := lock.Acquire(ctx); err != nil {
		return struct{}{}, err
	}
	os.Exit(1)
	return struct{}{}, nil
})

// A lock whose holder has died is not lost: whoever gets it next is told.
func ExampleLock_Acquire() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	lock, err := fiber.NewLock(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(seize, lock)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	p.Join(ctx)
	switch err := lock.Acquire(ctx); {
	case errors.Is(err, fiber.ErrAbandoned):
		fmt.Println("held, and what it guards has to be looked at")
		fmt.Println(lock.Release(ctx))
	default:
		fmt.Println(err)
	}
	// Output:
	// held, and what it guards has to be looked at
	// <nil>
}
