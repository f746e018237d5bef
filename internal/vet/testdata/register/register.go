// Package register registers early and late.
package register

import (
	"context"
	"errors"

	"github.com/fiber-go/fiber"
)

var (
	one    = fiber.Register("one", square)
	two    = define("two")
	errOne = fiber.RegisterError(errors.New("one"))
	all    = func() (all []*fiber.Func[int, int]) {
		return append(all, fiber.Register("three", square))
	}()
	late *fiber.Func[int, int]
)

func square(ctx context.Context, x int) (int, error) { return x * x, nil }

func define(name string) *fiber.Func[int, int] { return fiber.Register(name, square) }

func init() { late = fiber.Register("four", square) }

// Define is for the package variables of others.
func Define(name string) *fiber.Func[int, int] { return fiber.Register(name, square) }

func use(ctx context.Context, pool *fiber.Pool) {
	five := fiber.Register("five", square) // want `^fiber.Register outside of a package variable: other processes do not know what is registered here$`
	fiber.Apply(ctx, pool, five, 1)
	func() {
		fiber.RegisterError(errors.New("two"))                                                                    // want `^fiber.RegisterError outside`
		fiber.RegisterMethod("six", func(x *int, ctx context.Context, y int) (int, error) { return *x + y, nil }) // want `^fiber.RegisterMethod outside`
	}()
}

//fiber:ignore register it fails, and says why
func mistake() { fiber.Register("seven", square) }
