package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type download struct {
	Slots *fiber.BoundedSemaphore
	File  string
}

// fetchFile is run by many workers, of which two at a time download something.
var fetchFile = fiber.Register("fetchFile", func(ctx context.Context, d download) (string, error) {
	var content string
	err := d.Slots.With(ctx, func(ctx context.Context) error {
		content = "content of " + d.File
		return nil
	})
	return content, err
})

func ExampleBoundedSemaphore() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	slots, err := fiber.NewBoundedSemaphore(ctx, m, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	contents, err := fiber.Map(ctx, pool, fetchFile, []download{{slots, "a"}, {slots, "b"}, {slots, "c"}})
	fmt.Println(contents, err)
	fmt.Println(slots.Release(ctx))
	// Output:
	// [content of a content of b content of c] <nil>
	// fiber: the semaphore has all its permits; call Release once for each Acquire
}
