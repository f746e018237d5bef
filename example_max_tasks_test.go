package fiber_test

import (
	"context"
	"fmt"
	"os"

	"github.com/fiber-go/fiber"
)

var whoRan = fiber.Register("whoRan", func(ctx context.Context, _ int) (int, error) { return os.Getpid(), nil })

// One worker at a time, and a new process after every ten tasks.
func ExampleWithMaxTasksPerChild() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1, fiber.WithMaxTasksPerChild(10))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	pids, err := fiber.Map(ctx, pool, whoRan, make([]int, 30))
	tasks := map[int]int{}
	for _, pid := range pids {
		tasks[pid]++
	}
	fmt.Println(len(tasks), "processes", err)
	// Output: 3 processes <nil>
}
