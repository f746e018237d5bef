//go:build unix

package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
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
func lengths(size int) []int { return []int{0, 1, size - 1, size, size + 1, 1000, 300_007 / size} }

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
		if err := node.Barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

var collectives = fiber.RegisterRing("collectives", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	return errors.Join(checkCollectives[float32](ctx, node, 1e-5), checkCollectives[float64](ctx, node, 1e-13))
})

func TestCollectives(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			if testing.Short() && size > 5 {
				t.Skip("it takes long under the race detector")
			}
			require.NoError(t, fiber.NewRing(size, collectives).Run(fibertest.Within(t, 2*fibertest.Patience), fibertest.None{}))
		})
	}
}

// disagreeing is what the ranks of a ring do that do not agree.
var disagreeing = fiber.RegisterRing("disagreeing", nil, func(ctx context.Context, node *fiber.RingNode, w disagreement) error {
	do := func() error {
		me, last := node.Rank(), node.Rank() == node.Size()-1
		xs := make([]float32, 1_000_000)
		switch w.How {
		case "lengths":
			return fiber.AllReduce(ctx, node, xs[:1000*(1+me%2)])
		case "one longer":
			return fiber.AllReduce(ctx, node, xs[:len(xs)-me/(node.Size()-1)])
		case "one empty":
			if last {
				xs = nil
			}
			return fiber.AllReduce(ctx, node, xs)
		case "one not empty":
			if !last {
				xs = nil
			}
			return fiber.AllReduce(ctx, node, xs)
		case "gathered lengths":
			_, err := fiber.AllGather(ctx, node, xs[:10+me])
			return err
		case "types":
			if last {
				return fiber.AllReduce(ctx, node, make([]float64, 10))
			}
			return fiber.AllReduce(ctx, node, make([]float32, 10))
		case "operations":
			return fiber.AllReduce(ctx, node, xs, fiber.Op(me%2))
		case "roots":
			return fiber.Broadcast(ctx, node, me, xs)
		case "collectives":
			if last {
				return fiber.Broadcast(ctx, node, 0, xs)
			}
			return fiber.AllReduce(ctx, node, xs)
		case "order":
			err := fiber.AllReduce(ctx, node, xs)
			if me%2 == 0 {
				err = errors.Join(err, node.Barrier(ctx))
			}
			return errors.Join(err, fiber.AllReduce(ctx, node, xs))
		case "returns early":
			if last {
				return nil
			}
			return fiber.AllReduce(ctx, node, xs)
		case "context":
			ctx := ctx
			if last {
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				ctx = short
			} else if me == 0 { // whom the others wait for
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return fiber.AllReduce(ctx, node, xs)
		}
		return errors.New("how?")
	}
	err := node.Barrier(ctx) // or some may not have begun
	if err == nil {
		err = do()
	}
	if failed := w.Q.Put(context.Background(), rankReport{Rank: node.Rank(), Text: fmt.Sprint(err)}); failed != nil {
		return failed
	}
	<-ctx.Done()
	return nil // what was wrong is known all the same
})

type disagreement struct {
	How string
	Q   *fiber.SimpleQueue[rankReport]
}

func TestRanksThatDisagree(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_CANCEL_GRACE=1h", "FIBER_HEARTBEAT_TIMEOUT=1h") { // each rank says what it has heard
		return
	}
	for how, text := range map[string]string{
		"lengths":          `AllReduce: rank \d gives [12]000 numbers and rank \d gives [12]000; the slices must have the same length on all ranks`,
		"one longer":       `AllReduce: rank \d gives (1000000|999999) numbers and rank \d gives (1000000|999999);`,
		"one empty":        `AllReduce: rank \d gives (1000000|0) numbers and rank \d gives (1000000|0);`,
		"one not empty":    `AllReduce: rank \d gives (1000000|0) numbers and rank \d gives (1000000|0);`,
		"gathered lengths": `AllGather: rank \d gives \d+ numbers and rank \d gives \d+;`,
		"types":            `AllReduce: rank \d gives \[\]float(32|64) and rank \d \[\]float(32|64)`,
		"operations":       `AllReduce: rank \d and rank \d give different operations`,
		"roots":            `Broadcast: rank \d names rank \d as the root and rank \d names rank \d`,
		"collectives":      `rank \d does (AllReduce|Broadcast) where rank \d does (AllReduce|Broadcast); all ranks must do the same collectives in the same order`,
		"order":            `rank \d does (AllReduce|Barrier) where rank \d does (AllReduce|Barrier); all ranks`,
		"context":          `AllReduce: context deadline exceeded`,
	} {
		t.Run(how, func(t *testing.T) {
			for _, size := range []int{2, 4} {
				if how == "context" && size == 2 {
					continue
				}
				q := rankReports(t)
				ring := fiber.NewRing(size, disagreeing)
				err := ring.Run(fibertest.Soon(t), disagreement{how, q})
				require.ErrorAs(t, err, new(*fiber.RingError))
				require.Regexp(t, text, err.Error())
				for _, r := range collectRanks(t, q, size) {
					if how == "context" && r.Rank == size-1 {
						require.Equal(t, context.DeadlineExceeded.Error(), r.Text)
						continue
					}
					require.Regexp(t, text, r.Text, "rank %d", r.Rank)
				}
				if how == "context" {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			}
		})
	}
}

// A rank that returns without doing what the others wait for.
func TestRankThatReturnsEarly(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 4} {
		ring := fiber.NewRing(size, early)
		err := ring.Run(fibertest.Soon(t), fibertest.None{})
		require.ErrorContains(t, err, fmt.Sprintf("AllReduce: rank %d has returned from the ring's function", size-1))
		var remote *fiber.RemoteError
		require.ErrorAs(t, err, &remote)
	}
}

var early = fiber.RegisterRing("early", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	if node.Rank() == node.Size()-1 {
		return nil
	}
	return fiber.AllReduce(ctx, node, make([]float32, 10_000_000))
})

// refused is what a rank is told at once, with no harm to the ring.
var refused = fiber.RegisterRing("refused", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	xs := []float64{1, 2}
	for want, err := range map[string]error{
		"AllReduce takes one operation, not [Sum Max]": fiber.AllReduce(ctx, node, xs, fiber.Sum, fiber.Max),
		"there is no operation Op(77)":                 fiber.AllReduce(ctx, node, xs, fiber.Op(77)),
		"there is no rank 2 in a ring of 2":            fiber.Broadcast(ctx, node, 2, xs),
		"there is no rank -1 in a ring of 2":           fiber.Broadcast(ctx, node, -1, xs),
		"ReduceScatter: there is no operation Op(200)": second(fiber.ReduceScatter(ctx, node, xs, fiber.Op(200))),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%v instead of %s", err, want)
		}
	}
	// While one collective waits another one is refused.
	if node.Rank() == 0 {
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- node.Barrier(ctx) }()
		}
		if err := <-results; err == nil || !strings.Contains(err.Error(), "another collective runs on this rank") {
			return fmt.Errorf("two collectives at a time: %v", err)
		}
		if err := node.Right().Send(ctx, "go"); err != nil {
			return err
		}
		if err := <-results; err != nil {
			return err
		}
	} else {
		var word string
		if err := node.Left().Recv(ctx, &word); err != nil {
			return err
		}
		if err := node.Barrier(ctx); err != nil {
			return err
		}
	}
	return fiber.AllReduce(ctx, node, xs)
})

func TestRefusedCollectives(t *testing.T) {
	t.Parallel()
	require.NoError(t, fiber.NewRing(2, refused).Run(fibertest.Soon(t), fibertest.None{}))
}

// What a rank adds up is the same from run to run, and its slices are its own
// as soon as AllReduce returns.
var repeating = fiber.RegisterRing("repeating", nil, func(ctx context.Context, node *fiber.RingNode, q *fiber.SimpleQueue[[]float32]) error {
	xs := make([]float32, 300_001)
	for round := range 20 {
		copy(xs, input[float32](uint64(round), node.Rank(), len(xs)))
		if err := fiber.AllReduce(ctx, node, xs); err != nil {
			return err
		}
		if round == 19 && node.Rank() == 1 {
			return q.Put(ctx, xs)
		}
		for i := range xs { // others still take what was posted, if anything was
			xs[i] = float32(math.NaN())
		}
	}
	return nil
})

func TestDeterministic(t *testing.T) {
	t.Parallel()
	q, err := fiber.NewSimpleQueue[[]float32]()
	require.NoError(t, err)
	defer q.Close()
	var first []float32
	for range 3 {
		require.NoError(t, fiber.NewRing(3, repeating).Run(fibertest.Soon(t), q))
		xs, err := q.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.NoError(t, near("AllReduce", xs, serially[float32](19, 3, len(xs), fiber.Sum), 1e-5))
		if first == nil {
			first = xs
		}
		require.True(t, slices.Equal(first, xs))
	}
}

// NaN and the infinities.
var special = fiber.RegisterRing("special", nil, func(ctx context.Context, node *fiber.RingNode, _ fibertest.None) error {
	inf, nan := math.Inf(1), math.NaN()
	for i, want := range [][]float64{{nan, inf, nan}, {nan, 1, -inf}, {nan, inf, inf}} {
		op := []fiber.Op{fiber.Sum, fiber.Min, fiber.Max}[i]
		xs := [][]float64{{nan, inf, inf}, {2, 1, -inf}}[node.Rank()]
		if err := fiber.AllReduce(ctx, node, xs, op); err != nil {
			return err
		}
		if fmt.Sprint(xs) != fmt.Sprint(want) {
			return fmt.Errorf("%v: %v instead of %v", op, xs, want)
		}
	}
	return nil
})

func TestSpecialNumbers(t *testing.T) {
	t.Parallel()
	for range 20 { // ranks go while others have not noted yet that they may
		require.NoError(t, fiber.NewRing(2, special).Run(fibertest.Soon(t), fibertest.None{}))
	}
}
