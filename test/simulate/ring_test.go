package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/sim"
)

// round is what the ranks of a ring do.
type round struct {
	Seed   uint64
	Rounds int
	Fails  int // the rank that fails half-way, -1 for none
}

var errRank = fiber.RegisterError(errors.New("this rank is to fail"))

var (
	ruleCollectives = rule("collectives")
	ruleRing        = rule("ring")
)

var ranks = fiber.RegisterRing("ranks", nil, func(ctx context.Context, node *fiber.RingNode, in round) error {
	w := here()
	r := rand.New(rand.NewPCG(in.Seed, 1)) // the same in all ranks
	own := rand.New(rand.NewPCG(in.Seed, uint64(2+node.Rank())))
	for n := range in.Rounds {
		time.Sleep(time.Duration(own.IntN(5)) * time.Millisecond)
		if node.Rank() == in.Fails && n == in.Rounds/2 {
			return errRank
		}
		xs := make([]float64, []int{0, 1, 7, 1000, 50_000}[r.IntN(5)])
		for i := range xs {
			xs[i] = float64(node.Rank() + i)
		}
		size, rank := node.Size(), node.Rank()
		var err error
		var wrong string
		check := func(got []float64, want func(i int) float64) {
			for i, x := range got {
				if x != want(i) {
					wrong = fmt.Sprintf("%v instead of %v at %d of %d", x, want(i), i, len(got))
					return
				}
			}
		}
		what := r.IntN(5)
		switch what {
		case 0:
			err = fiber.AllReduce(ctx, node, xs)
			check(xs, func(i int) float64 { return float64(size*(size-1)/2 + size*i) })
		case 1:
			var part []float64
			part, err = fiber.ReduceScatter(ctx, node, xs)
			check(part, func(i int) float64 { return float64(size*(size-1)/2 + size*(i+rank*len(xs)/size)) })
		case 2:
			var all []float64
			all, err = fiber.AllGather(ctx, node, xs)
			check(all, func(i int) float64 { return float64(i/len(xs) + i%len(xs)) })
		case 3:
			root := r.IntN(size)
			err = fiber.Broadcast(ctx, node, root, xs)
			check(xs, func(i int) float64 { return float64(root + i) })
		case 4:
			err = node.Barrier(ctx)
		}
		if err != nil {
			var failed *fiber.RingError
			if !errors.As(err, &failed) && ctx.Err() == nil {
				w.breach(ruleErrors, "a collective in %s: %T %v", sim.Here().Name, err, err)
			}
			return err
		}
		if wrong != "" {
			w.breach(ruleCollectives, "collective %d, round %d, in %s: %s", what, n, sim.Here().Name, wrong)
		}
		w.bit(ruleCollectives)
	}
	return nil
})

func init() {
	works["ring"] = func(ctx context.Context, w *world, r *rand.Rand) error {
		in := round{Seed: r.Uint64(), Rounds: 1 + r.IntN(15), Fails: -1}
		size := 1 + r.IntN(4)
		if r.IntN(4) == 0 {
			in.Fails = r.IntN(size)
		}
		err := w.within(ctx, r, ringLate, "Run of a ring", func(ctx context.Context) error {
			err := fiber.NewRing(size, ranks).Run(ctx, in)
			var failed *fiber.RingError
			switch {
			case err == nil:
				if in.Fails >= 0 {
					w.breach(ruleRing, "it has succeeded, though rank %d fails", in.Fails)
				}
				w.bit(ruleRing)
			case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			case !errors.As(err, &failed):
				w.breach(ruleErrors, "Run of a ring: %T %v", err, err)
			case w.harmed() > 0:
			case in.Fails != failed.Rank || !errors.Is(err, errRank):
				w.breach(ruleRing, "%v, though rank %d fails", err, in.Fails)
			default:
				w.bit(ruleRing)
			}
			return err
		})
		_ = err
		return nil
	}
}

// ringLate is how long a ring may take to end its ranks: cancel_grace, and shutdown_grace until they are killed, and the time
// until the death of a machine is known.
const ringLate = 40 * time.Second
