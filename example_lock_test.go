package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fiber-go/fiber"
)

// account has a balance of two parts. The lock keeps them consistent.
type account struct {
	Lock    *fiber.Lock
	Dollars *fiber.Value[int]
	Cents   *fiber.Value[int]
}

var deposit = fiber.Register("deposit", func(ctx context.Context, a account) (struct{}, error) {
	return struct{}{}, a.Lock.With(ctx, func(ctx context.Context) error {
		dollars, err := a.Dollars.Get(ctx)
		if err != nil {
			return err
		}
		cents, err := a.Cents.Get(ctx)
		if err != nil {
			return err
		}
		if cents += 60; cents >= 100 {
			if err := a.Dollars.Set(ctx, dollars+cents/100); err != nil {
				return err
			}
		}
		return a.Cents.Set(ctx, cents%100)
	})
})

func ExampleLock() {
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

	var a account
	if a.Lock, err = fiber.NewLock(ctx, m); err != nil {
		fmt.Println(err)
		return
	}
	if a.Dollars, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	if a.Cents, err = fiber.NewValue(ctx, m, 0); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := fiber.Map(ctx, pool, deposit, []account{a, a, a, a, a}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Dollars.Get(ctx))
	fmt.Println(a.Cents.Get(ctx))
	// Output:
	// 3 <nil>
	// 0 <nil>
}

// seize takes a lock, and its process dies holding it.
var seize = fiber.Register("seize", func(ctx context.Context, lock *fiber.Lock) (struct{}, error) {
	if err := lock.Acquire(ctx); err != nil {
		return struct{}{}, err
	}
	os.Exit(1)
	return struct{}{}, nil
})

// A lock whose holder has died is not lost: Acquire takes it, and returns
// ErrAbandoned.
func ExampleLock_Acquire() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	lock, err := fiber.NewLock(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := fiber.NewProcess(seize, lock)
	if err := p.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	p.Join(ctx)
	switch err := lock.Acquire(ctx); {
	case errors.Is(err, fiber.ErrAbandoned):
		fmt.Println("held, and what it guards has to be looked at")
		fmt.Println(lock.Release(ctx))
	default:
		fmt.Println(err)
	}
	// Output:
	// held, and what it guards has to be looked at
	// <nil>
}

// The holder of an RLock may acquire it again. One Release too many is an error.
func ExampleRLock() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	lock, err := fiber.NewRLock(ctx, m)
	if err != nil {
		fmt.Println(err)
		return
	}
	inner := func(ctx context.Context) error {
		fmt.Println("twice")
		return nil
	}
	outer := func(ctx context.Context) error {
		fmt.Println("once")
		return lock.With(ctx, inner)
	}
	fmt.Println(lock.With(ctx, outer))
	fmt.Println(lock.Release(ctx))
	// Output:
	// once
	// twice
	// <nil>
	// fiber: the lock is not held here: nobody holds it
}

func ExampleSemaphore() {
	ctx := context.Background()
	m, err := fiber.NewManager(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()

	seats, err := fiber.NewSemaphore(ctx, m, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		fmt.Println(seats.TryAcquire(ctx))
	}
	if err := seats.Release(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(seats.Permits(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// 1 <nil>
}

type download struct {
	Slots *fiber.BoundedSemaphore
	File  string
}

// fetchFile runs in many workers, of which two at a time download a file.
var fetchFile = fiber.Register("fetchFile", func(ctx context.Context, d download) (string, error) {
	var content string
	err := d.Slots.With(ctx, func(ctx context.Context) error {
		content = "content of " + d.File
		return nil
	})
	return content, err
})

// One Release too many is an error.
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
