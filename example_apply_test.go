package fiber_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/fiber-go/fiber"
)

var shout = fiber.Register("shout", func(ctx context.Context, text string) (string, error) {
	return strings.ToUpper(text) + "!", nil
})

func ExampleApply() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	loud, err := fiber.Apply(ctx, pool, shout, "hello")
	fmt.Println(loud, err)
	// Output: HELLO! <nil>
}
