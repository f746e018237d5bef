//go:build unix

package pool_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// draws returns random numbers of its own, and of two calls that it makes.
var draws *fiber.Func[drawing, [3]uint64]

func init() { draws = fiber.Register("draws", draw) } // it refers to itself

type drawing struct {
	Fails int // attempts
	Calls bool
}

func draw(ctx context.Context, in drawing) (d [3]uint64, err error) {
	if task, _ := fiber.TaskFromContext(ctx); task.Attempt <= in.Fails {
		return d, errFlaky
	}
	d[0] = rand.New(rand.NewPCG(fiber.TaskSeed(ctx))).Uint64()
	if !in.Calls {
		return d, nil
	}
	pool, err := fiber.NewPool(1)
	if err != nil {
		return d, err
	}
	defer pool.Close()
	for i := range 2 {
		below, err := fiber.Apply(ctx, pool, draws, drawing{})
		if err != nil {
			return d, err
		}
		d[1+i] = below[0]
	}
	return d, nil
}

func TestSeed(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	of := func(workers int, opts ...fiber.CallOption) [][3]uint64 {
		ins := make([]drawing, 40)
		ins[3].Calls, ins[4].Calls = true, true
		ins[4].Fails, ins[20].Fails = workers-1, workers-1
		return fibertest.Sure(fiber.Map(ctx, fibertest.NewPool(t, workers), draws, ins, append(opts, fiber.Retries(3), soonAgain)...))(t)
	}
	one := of(1, fiber.Seed(7))
	var all []uint64
	for _, d := range one {
		all = append(all, d[:]...)
	}
	all = append(all, of(1)[0][0], of(1)[0][0], of(1, fiber.Seed(8))[0][0])
	require.Equal(t, 40+2*2+3+1, fibertest.Distinct(all), "of which one is 0")
	require.Equal(t, one, of(3, fiber.Seed(7), fiber.ChunkSize(1)))

	// They stay the same from one release to the next.
	require.Equal(t, []uint64{0x802500e16a598b64, 0xcbfb9318b92a8ce8}, []uint64{one[0][0], one[3][2]})

	a, b := fiber.TaskSeed(t.Context())
	var none context.Context
	c, _ := fiber.TaskSeed(none)
	require.Equal(t, 3, fibertest.Distinct([]uint64{a, b, c}))
}
