package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fiber-go/fiber"
)

var divide = fiber.Register("divide", func(ctx context.Context, by int) (int, error) {
	return 100 / by, nil
})

// An error that the function returns arrives as a RemoteError, and so does a
// panic. The task is not tried again, and its worker goes on.
func ExampleRemoteError() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, divide, 0)
	var remote *fiber.RemoteError
	if errors.As(err, &remote) {
		fmt.Println(remote.Func, "failed:", remote.Message)
		fmt.Println("it panicked:", remote.Stack != "")
	}
	fmt.Println(fiber.Apply(ctx, pool, divide, 4))
	// Output:
	// divide failed: runtime error: integer divide by zero
	// it panicked: true
	// 25 <nil>
}

// errSoldOut is known to all processes: errors.Is finds it wherever it was
// returned.
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

// quotaError arrives as what it is, with its exported fields.
type quotaError struct{ Limit int }

func (e *quotaError) Error() string { return fmt.Sprintf("more than %d tickets", e.Limit) }

var _ = fiber.RegisterErrorType[*quotaError]()

var reserve = fiber.Register("reserve", func(ctx context.Context, tickets int) (string, error) {
	if tickets > 6 {
		return "", &quotaError{Limit: 6}
	}
	task, _ := fiber.TaskFromContext(ctx)
	return fmt.Sprintf("order %d of %d tickets", task.Index, tickets), nil
})

// A TaskError says which input failed. Map returns the results of the inputs before it.
func ExampleRegisterErrorType() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	orders, err := fiber.Map(ctx, pool, reserve, []int{2, 6, 7})
	fmt.Printf("%q\n", orders)
	if task := (*fiber.TaskError)(nil); errors.As(err, &task) {
		fmt.Println("input", task.Index, "failed")
	}
	if quota := (*quotaError)(nil); errors.As(err, &quota) {
		fmt.Println("the limit is", quota.Limit)
	}
	// Output:
	// ["order 0 of 2 tickets" "order 1 of 6 tickets"]
	// input 2 failed
	// the limit is 6
}

// fragile ends its process when n is 13.
var fragile = fiber.Register("fragile", func(ctx context.Context, n int) (int, error) {
	if n == 13 {
		os.Exit(7)
	}
	return n, nil
})

// A task that ends its worker is tried three times, each time alone in its
// process, and then given up. The pool goes on with new workers.
func ExampleWorkerLostError() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	_, err = fiber.Apply(ctx, pool, fragile, 13)
	var lost *fiber.WorkerLostError
	if errors.As(err, &lost) {
		fmt.Println(lost.Func, "ended its worker with exit code", lost.ExitCode)
		fmt.Println("attempt", lost.Attempt, "of", lost.Attempts)
	}
	fmt.Println(fiber.Apply(ctx, pool, fragile, 14))
	// Output:
	// fragile ended its worker with exit code 7
	// attempt 3 of 3
	// 14 <nil>
}

var describe = fiber.Register("describe", func(ctx context.Context, value any) (string, error) {
	return fmt.Sprintf("%T %v", value, value), nil
})

type point struct{ X, Y int }

// An any holds whatever can travel, but its exact type is lost: an integer arrives
// in the narrowest type that holds it, a struct as a map.
func ExampleEncodeError() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	texts, err := fiber.Map(ctx, pool, describe, []any{7, 200, -300, 2.5, "text", []float64{1}, point{3, 4}})
	for _, text := range texts {
		fmt.Println(text)
	}
	fmt.Println(err)

	_, err = fiber.Apply(ctx, pool, describe, any([]any{1, make(chan int)}))
	var unfit *fiber.EncodeError
	if errors.As(err, &unfit) {
		fmt.Printf("%s is a %s: %s\n", unfit.Path, unfit.Type, unfit.Reason)
	}
	// Output:
	// int8 7
	// uint8 200
	// int16 -300
	// float64 2.5
	// string text
	// []float64 [1]
	// map[string]interface {} map[X:3 Y:4]
	// <nil>
	// [1] is a chan int: a chan cannot leave its process
}
