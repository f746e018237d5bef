package fiber_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/fiber-go/fiber"
)

var party sync.WaitGroup // of this process's tasks

var prepareParty = fiber.Register("prepareParty", func(ctx context.Context, guests int) (struct{}, error) {
	party.Add(guests)
	return struct{}{}, nil
})

// join waits until everybody is there: it would wait for ever if the worker
// ran its tasks one after another.
var join = fiber.Register("join", func(ctx context.Context, name string) (string, error) {
	party.Done()
	party.Wait()
	return name + " has met the others", nil
})

func ExampleWithConcurrency() {
	ctx := context.Background()
	pool, err := fiber.NewPool(1, fiber.WithConcurrency(3), fiber.WithInitializer(prepareParty, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	met, err := fiber.Map(ctx, pool, join, []string{"first", "second", "third"})
	for _, line := range met {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// first has met the others
	// second has met the others
	// third has met the others
	// <nil>
}
