package fiber_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiber-go/fiber"
)

var describe = fiber.Register("describe", func(ctx context.Context, value any) (string, error) {
	return fmt.Sprintf("%T %v", value, value), nil
})

type point struct{ X, Y int }

// An any takes whatever can travel. Its type does not: integers come back in
// the narrowest type that holds them.
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
