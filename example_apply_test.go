package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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

var factorial = fiber.Register("factorial", func(ctx context.Context, n int) (int, error) {
	product := 1
	for i := 2; i <= n; i++ {
		product *= i
	}
	return product, nil
})

func ExampleApplyAsync() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	var futures []*fiber.Future[int]
	for n := range 5 {
		futures = append(futures, fiber.ApplyAsync(ctx, pool, factorial, n))
	}
	for n, future := range futures {
		product, err := future.Get(ctx)
		fmt.Println(n, product, err)
	}
	// Output:
	// 0 1 <nil>
	// 1 1 <nil>
	// 2 2 <nil>
	// 3 6 <nil>
	// 4 24 <nil>
}

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

	// Done can be used in a select, and Get can be called any number of times.
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

// Whichever is done first comes first.
func ExampleAsCompleted() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Terminate()

	futures := []*fiber.Future[string]{fiber.ApplyAsync(ctx, pool, dawdle, struct{}{}), fiber.ApplyAsync(ctx, pool, shout, "hello")}
	for i, err := range fiber.AsCompleted(ctx, futures...) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(i)
		fmt.Println(futures[i].Get(ctx))
		break
	}
	// Output:
	// 1
	// HELLO! <nil>
}

// dawdle sleeps for an hour, or until its context ends.
var dawdle = fiber.Register("dawdle", func(ctx context.Context, _ struct{}) (string, error) {
	select {
	case <-time.After(time.Hour):
		return "slept well", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
})

// Go runs a function in a process of its own, and returns its result.
func ExampleGo() {
	ctx := context.Background()
	slow := fiber.Go(ctx, dawdle, struct{}{})
	first, second := fiber.Go(ctx, runes, "π"), fiber.Go(ctx, runes, "pi")
	fmt.Println(first.Get(ctx))
	fmt.Println(second.Get(ctx))
	slow.Cancel() // the function's context ends
	_, err := slow.Get(ctx)
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// 2 <nil>
	// context canceled
}

// The time limit ends the call, and the context of its task.
func ExampleTimeout() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, dawdle, struct{}{}, fiber.Timeout(50*time.Millisecond))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}
