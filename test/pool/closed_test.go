//go:build unix

package pool_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// The error of using a pool that was closed says which.
func TestTheErrorOfAClosedPoolNamesIt(t *testing.T) {
	t.Parallel()
	for _, end := range []func(*fiber.Pool){(*fiber.Pool).Close, (*fiber.Pool).Terminate} {
		pool := fibertest.NewPool(t, 1, fiber.WithName("Named"))
		fibertest.Warm(t, pool)
		end(pool)
		check := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, fiber.ErrClosed)
			require.EqualError(t, err, "fiber: the pool Named was closed")
		}
		_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1)
		check(err)
		_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Square, []int{1})
		check(err)
		for _, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, slices.Values([]int{1})) {
			check(err)
		}
		check(pool.WaitUntilWorkersUp(fibertest.Soon(t)))
		check(pool.Resize(fibertest.Soon(t), 2))
	}
	pool := fibertest.NewPool(t, 1)
	pool.Close()
	require.Regexp(t, `^fiber: the pool Pool\d+ was closed$`, pool.Resize(fibertest.Soon(t), 2).Error())
}
