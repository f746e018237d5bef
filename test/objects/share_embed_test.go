//go:build unix

package objects_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Inner refers to a shared value by embedding it, and Outer may have no Inner.
type (
	Inner struct{ *fiber.Shared[int] }
	Outer struct{ *Inner }
)

var embeds = fiber.Register("embeds", func(context.Context, Outer) (int, error) { return 1, nil })

// An argument that can't be encoded since what it embeds is nil fails its own task, and the program goes on.
func TestNilThatEmbedsASharedValue(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	require.NoError(t, pool.WaitUntilWorkersUp(fibertest.Soon(t)))
	fails := func(err error) {
		t.Helper()
		require.True(t, errors.As(err, new(*fiber.TaskError)), "%v", err)
	}
	_, err := fiber.Apply(fibertest.Soon(t), pool, embeds, Outer{})
	fails(err)
	_, err = fiber.Map(fibertest.Soon(t), pool, embeds, make([]Outer, 2))
	fails(err)
	fibertest.StillWorks(t, pool)
}
