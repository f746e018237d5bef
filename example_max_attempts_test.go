package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fiber-go/fiber"
)

// pay must not run twice: it leaves a trace before its process dies.
var pay = fiber.Register("pay", func(ctx context.Context, ledger string) (struct{}, error) {
	f, err := os.OpenFile(ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return struct{}{}, err
	}
	fmt.Fprintln(f, "paid")
	f.Close()
	os.Exit(1)
	return struct{}{}, nil
})

// With one attempt a task that was started is never run again.
func ExampleWithMaxAttempts() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1, fiber.WithMaxAttempts(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	ledger := filepath.Join(dir, "ledger")
	_, err = fiber.Apply(ctx, pool, pay, ledger)
	var lost *fiber.WorkerLostError
	fmt.Println(errors.As(err, &lost))
	entries, err := os.ReadFile(ledger)
	fmt.Printf("%q %v\n", entries, err)
	// Output:
	// true
	// "paid\n" <nil>
}
