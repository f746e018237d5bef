package fiber_test

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber"
)

type footrace struct {
	Gun    *fiber.Event
	Runner string
}

var awaitGun = fiber.Register("awaitGun", func(ctx context.Context, r footrace) (string, error) {
	if err := r.Gun.Wait(ctx); err != nil {
		return "", err
	}
	return r.Runner + " runs", nil
})

func ExampleEvent() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	pool, err := fiber.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	gun, err := fiber.NewEvent(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	running := fiber.MapAsync(ctx, pool, awaitGun, []footrace{{gun, "Ada"}, {gun, "Grace"}}, fiber.ChunkSize(1))
	fmt.Println(running.Ready())
	if err := gun.Set(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(running.Get(ctx))
	// Output:
	// false
	// [Ada runs Grace runs] <nil>
}

type shelf struct {
	Changed *fiber.Condition
	Loaves  *fiber.List[string]
}

// bake puts a loaf on the shelf and tells one process that waits for it.
var bake = fiber.Register("bake", func(ctx context.Context, s shelf) (struct{}, error) {
	return struct{}{}, s.Changed.With(ctx, func(ctx context.Context) error {
		if err := s.Loaves.Append(ctx, "rye"); err != nil {
			return err
		}
		return s.Changed.Notify(ctx, 1)
	})
})

func ExampleCondition() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	var s shelf
	if s.Changed, err = fiber.NewCondition(ctx, m, nil); err != nil {
		fmt.Println(err)
		return
	}
	if s.Loaves, err = fiber.NewList[string](ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(bake, s)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	err = s.Changed.With(ctx, func(ctx context.Context) error {
		err := s.Changed.WaitFor(ctx, func() (bool, error) {
			n, err := s.Loaves.Len(ctx)
			return n > 0, err
		})
		if err != nil {
			return err
		}
		fmt.Println(s.Loaves.Pop(ctx, 0))
		return nil
	})
	fmt.Println(err, p.Join(ctx))
	// Output:
	// rye <nil>
	// <nil> <nil>
}

type phase struct {
	Barrier *fiber.Barrier
	Sums    *fiber.Array[int]
	Index   int
}

// solvePart works in two phases: the second needs what all parties did in the
// first. Wait returns ErrBrokenBarrier if one of them has died.
var solvePart = fiber.Register("solvePart", func(ctx context.Context, p phase) (int, error) {
	if err := p.Sums.Set(ctx, p.Index, 10*p.Index); err != nil {
		return 0, err
	}
	if _, err := p.Barrier.Wait(ctx); err != nil {
		return 0, err
	}
	sums, err := p.Sums.Slice(ctx, 0, 3)
	if err != nil {
		return 0, err
	}
	return sums[0] + sums[1] + sums[2] + p.Index, nil
})

func ExampleBarrier() {
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

	barrier, err := fiber.NewBarrier(ctx, m, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	sums, err := fiber.NewArray(ctx, m, make([]int, 3))
	if err != nil {
		fmt.Println(err)
		return
	}
	parts := []phase{{barrier, sums, 0}, {barrier, sums, 1}, {barrier, sums, 2}}
	fmt.Println(fiber.Map(ctx, pool, solvePart, parts, fiber.ChunkSize(1)))
	// Output: [30 31 32] <nil>
}
