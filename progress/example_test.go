//go:build unix

package progress_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/progress"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) { fibertest.Main(m) }

var cube = fiber.Register("cube", func(ctx context.Context, x int) (int, error) { return x * x * x, nil })

// A line at the bottom of the terminal shows how far the call has come. What the program prints meanwhile goes to Writer.
func Example() {
	ctx := context.Background()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	xs := func(yield func(int) bool) {
		for x := 1; x <= 1000 && yield(x); x++ {
		}
	}
	for y, err := range fiber.IMap(ctx, pool, cube, xs, progress.Bar("cubes")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if y%1_000_000 == 0 {
			fmt.Fprintln(progress.Writer(), y)
		}
	}
	// Output:
	// 1000000
	// 8000000
	// 27000000
	// 64000000
	// 125000000
	// 216000000
	// 343000000
	// 512000000
	// 729000000
	// 1000000000
}
