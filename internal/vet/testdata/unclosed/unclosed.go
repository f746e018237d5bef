// Package unclosed closes some of its pools.
package unclosed

import (
	"context"

	"github.com/fiber-go/fiber"
)

var double = fiber.Register("double", func(ctx context.Context, x int) (int, error) { return 2 * x, nil })

var managed = fiber.Register("managed", func(ctx context.Context, m *fiber.Manager) (int, error) { return 0, nil })

func left(ctx context.Context) error {
	pool, err := fiber.NewPool(2) // want `^the pool is never closed: defer pool.Close\(\)$`
	if err != nil || pool == nil {
		return err
	}
	pool.Stats()
	_, err = fiber.Map(ctx, pool, double, []int{1})
	m, err := fiber.NewManager(ctx) // want `^the manager is never closed: defer m.Close\(\)$`
	fiber.NewValue(ctx, m, 1)
	fiber.NewPool(3)        // want `^the pool is never closed: nothing holds it$`
	_, _ = fiber.NewPool(3) // want `^the pool is never closed: nothing holds it$`
	fiber.NewManager(ctx)   // want `^the manager is never closed: nothing holds it$`
	return err
}

func closed(ctx context.Context, each func(func())) {
	a, _ := fiber.NewPool(1)
	defer a.Close()
	b, _ := fiber.NewPool(1)
	defer func() { b.Terminate() }()
	c, _ := fiber.NewManager(ctx)
	each(func() { c.Close() })
	d, _ := fiber.NewPool(1)
	each(d.Close)
	e, _ := fiber.NewPool(1)
	defer e.Shutdown(ctx)
	f, _ := fiber.NewManager(ctx)
	f.Shutdown(ctx)
	_, err := fiber.NewPool(-1)
	_ = err
}

type server struct{ pool *fiber.Pool }

var shared *fiber.Pool

func passedOn(ctx context.Context, s *server, use func(*fiber.Pool)) (pool *fiber.Pool, err error) {
	s.pool, err = fiber.NewPool(1)
	shared, err = fiber.NewPool(1)
	a, _ := fiber.NewPool(1)
	use(a)
	b, _ := fiber.NewPool(1)
	s = &server{b}
	m, _ := fiber.NewManager(ctx)
	fiber.NewProcess(managed, m).Start(ctx)
	if err == nil {
		c, err := fiber.NewPool(1)
		return c, err
	}
	pool, err = fiber.NewPool(1)
	return
}
