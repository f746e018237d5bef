package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// input is what a rank brings to a collective. Each rank can work out what all
// others bring, and so the result.
func input[T fiber.Float](seed uint64, rank, length int) []T {
	r := rand.New(rand.NewPCG(seed, uint64(rank)))
	xs := make([]T, length)
	for i := range xs {
		xs[i] = T(r.NormFloat64())
	}
	return xs
}

// serially does what AllReduce does.
func serially[T fiber.Float](seed uint64, size, length int, op fiber.Op) []T {
	want := input[T](seed, 0, length)
	for rank := 1; rank < size; rank++ {
		for i, x := range input[T](seed, rank, length) {
			switch op {
			case fiber.Min:
				want[i] = min(want[i], x)
			case fiber.Max:
				want[i] = max(want[i], x)
			default:
				want[i] += x
			}
		}
	}
	if op == fiber.Mean {
		for i := range want {
			want[i] /= T(size)
		}
	}
	return want
}

// near compares numbers that were added in different orders.
func near[T fiber.Float](what string, got, want []T, tolerance float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d numbers instead of %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > tolerance {
			return fmt.Errorf("%s: number %d of %d is %v instead of %v", what, i, len(got), got[i], want[i])
		}
	}
	return nil
}

// lengths are those at which the parts of a vector change their shape.
func lengths(size int) []int { return []int{0, 1, size - 1, size, size + 1, 1000, 100_003} }

// checkCollectives does all of them with numbers of one type.
func checkCollectives[T fiber.Float](ctx context.Context, node *fiber.RingNode, tolerance float64) error {
	size, me := node.Size(), node.Rank()
	for seed, length := range lengths(size) {
		seed := uint64(seed)
		for _, op := range []fiber.Op{fiber.Sum, fiber.Mean, fiber.Min, fiber.Max} {
			what := fmt.Sprintf("%v of %d %T", op, length, T(0))
			want := serially[T](seed, size, length, op)
			xs := input[T](seed, me, length)
			if err := fiber.AllReduce(ctx, node, xs, op); err != nil {
				return err
			}
			if err := near("AllReduce "+what, xs, want, tolerance); err != nil {
				return err
			}
			if other, err := fiber.AllGather(ctx, node, xs); err != nil {
				return err
			} else {
				for r := range size { // the same on all ranks, to the last bit
					if !slices.Equal(other[r*length:(r+1)*length], xs) {
						return fmt.Errorf("AllReduce %s differs between ranks %d and %d", what, r, me)
					}
				}
			}
			again := input[T](seed, me, length)
			part, err := fiber.ReduceScatter(ctx, node, again, op)
			if err != nil {
				return err
			}
			if err := near("ReduceScatter "+what, part, want[me*length/size:(me+1)*length/size], tolerance); err != nil {
				return err
			}
		}
		mine := input[T](seed, me, length)
		all, err := fiber.AllGather(ctx, node, mine)
		if err != nil {
			return err
		}
		var want []T
		for r := range size {
			want = append(want, input[T](seed, r, length)...)
		}
		if err := near("AllGather", all, want, 0); err != nil {
			return err
		}
		if err := near("AllGather's argument", mine, input[T](seed, me, length), 0); err != nil {
			return err
		}
		for root := range size {
			xs := input[T](seed, me, length)
			if err := fiber.Broadcast(ctx, node, root, xs); err != nil {
				return err
			}
			if err := near("Broadcast", xs, input[T](seed, root, length), 0); err != nil {
				return err
			}
		}
		if err := fiber.Barrier(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

var collectives = fiber.RegisterRing("collectives", nil, func(ctx context.Context, node *fiber.RingNode, _ none) error {
	return errors.Join(checkCollectives[float32](ctx, node, 1e-5), checkCollectives[float64](ctx, node, 1e-13))
})

func TestCollectives(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			require.NoError(t, fiber.NewRing(size, collectives).Run(soon(t), none{}))
		})
	}
}
