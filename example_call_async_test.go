package fiber_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

// simulation is an object whose method takes a while.
type simulation struct{ seed int }

func (s *simulation) Run(ctx context.Context, d time.Duration) (string, error) {
	select {
	case <-time.After(d):
		return fmt.Sprintf("run %d is done", s.seed), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

var (
	simulations = fiber.RegisterType("simulation", func(ctx context.Context, seed int) (*simulation, error) {
		return &simulation{seed}, nil
	})
	runFor = fiber.RegisterMethod("Run", (*simulation).Run)
)

// Three objects work at the same time; the caller waits when it needs the
// results, in whatever order.
func ExampleCallAsync() {
	ctx := context.Background()
	manager, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close()

	var futures []*fiber.Future[string]
	for seed := range 3 {
		s, err := fiber.New(ctx, manager, simulations, seed)
		if err != nil {
			fmt.Println(err)
			return
		}
		futures = append(futures, fiber.CallAsync(ctx, s, runFor, 10*time.Millisecond))
	}
	for _, i := range []int{2, 0, 1} {
		fmt.Println(futures[i].Get(ctx))
	}
	// Output:
	// run 2 is done <nil>
	// run 0 is done <nil>
	// run 1 is done <nil>
}
