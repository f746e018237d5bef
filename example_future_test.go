package fiber_test

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/fiber-go/fiber"
)

var runes = fiber.Register("runes", func(ctx context.Context, text string) (int, error) {
	return utf8.RuneCountInString(text), nil
})

func ExampleFuture() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	future := fiber.ApplyAsync(ctx, pool, runes, "π is roughly 3.14")

	// OnDone's function runs in a goroutine of its own.
	called := make(chan struct{})
	future.OnDone(func(n int, err error) {
		fmt.Println("called with", n, err)
		close(called)
	})
	<-called

	// Done can stand in a select, and Get can be called again and again.
	select {
	case <-future.Done():
		fmt.Println("ready:", future.Ready())
	case <-ctx.Done():
	}
	fmt.Println(future.Get(ctx))
	// Output:
	// called with 17 <nil>
	// ready: true
	// 17 <nil>
}
