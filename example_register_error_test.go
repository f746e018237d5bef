package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

// errSoldOut is known to all processes, so that it is the same error in each.
var errSoldOut = fiber.RegisterError(errors.New("sold out"))

var buy = fiber.Register("buy", func(ctx context.Context, ticket int) (string, error) {
	if ticket > 100 {
		return "", fmt.Errorf("ticket %d: %w", ticket, errSoldOut)
	}
	return fmt.Sprintf("seat %d", ticket), nil
})

func ExampleRegisterError() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, buy, 101)
	if remote := (*fiber.RemoteError)(nil); errors.As(err, &remote) {
		fmt.Println(remote.Message)
	}
	fmt.Println(errors.Is(err, errSoldOut))
	// Output:
	// ticket 101: sold out
	// true
}
