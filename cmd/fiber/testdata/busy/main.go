// Command busy has two workers that work until it is told to end.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fiber-go/fiber"
)

var nap = fiber.Register("nap", func(_ context.Context, n int) (int, error) {
	time.Sleep(20 * time.Millisecond)
	if n%50 == 49 {
		return 0, errors.New("bad luck\x1b[31m")
	}
	return n, nil
})

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	pool, err := fiber.NewPool(2, fiber.WithName("nappers"))
	if err != nil {
		return err
	}
	defer pool.Close()
	fmt.Println("begins")
	_, err = fiber.Map(ctx, pool, nap, make([]int, 1_000_000))
	fmt.Println("ends:", err)
	fmt.Fprintln(os.Stderr, "on stderr")
	return nil
}
