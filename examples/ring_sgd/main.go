// Command ring_sgd trains a classifier of handwritten digits on several
// processes that add up their gradients, and compares it with one process.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var (
	ranks    = flag.Int("ranks", 4, "processes that train together")
	epochs   = flag.Int("epochs", 30, "how many times each picture is used")
	batch    = flag.Int("batch", 48, "pictures in a step, of all processes together")
	learning = flag.Float64("rate", 0.5, "the learning rate")
	seed     = flag.Uint64("seed", 1, "`number` from which the order of the pictures is drawn")
)

func main() { fiber.Main(run) }

// training is the argument of every rank.
type training struct {
	Epochs, Batch int
	Rate          float64
	Seed          uint64
	Outcome       *fiber.SimpleQueue[outcome] // where rank 0 puts its own
}

// outcome is how good a trained model is.
type outcome struct {
	Loss     float64 // over the training pictures
	Accuracy float64 // over the held-out pictures, from 0 to 1
	HeldOut  int     // pictures held out of the training
}

// train runs in each rank. All ranks have the same model at all times: they
// begin with the same one and change it by the same sum of gradients.
var train = fiber.RegisterRing("train", nil, func(ctx context.Context, node *fiber.RingNode, t training) error {
	out, err := t.run(node.Rank(), node.Size(), func(xs []float64) error { return fiber.AllReduce(ctx, node, xs) })
	if err != nil || node.Rank() != 0 {
		return err
	}
	return t.Outcome.Put(ctx, out)
}, meta.CPU(1))

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("ring_sgd takes only flags, not %q; -h lists them", flag.Args())
	case *ranks < 1 || *batch < 1 || *epochs < 0:
		return fmt.Errorf("-ranks and -batch must be at least 1, and -epochs must not be negative")
	}
	t := training{Epochs: *epochs, Batch: *batch, Rate: *learning, Seed: *seed}
	alone, err := t.run(0, 1, func([]float64) error { return nil })
	if err != nil {
		return err
	}
	fmt.Printf("1 process: loss %.12f, %.1f%% of %d held-out digits right\n", alone.Loss, 100*alone.Accuracy, alone.HeldOut)
	together, err := trainTogether(ctx, *ranks, t)
	if err != nil {
		return err
	}
	fmt.Printf("%d ranks:   loss %.12f, %.1f%% of %d held-out digits right\n", *ranks, together.Loss, 100*together.Accuracy, together.HeldOut)
	if diff := math.Abs(together.Loss - alone.Loss); !(diff <= 1e-9) {
		return fmt.Errorf("the losses differ by %g", diff)
	}
	return nil
}

func trainTogether(ctx context.Context, ranks int, t training) (outcome, error) {
	var err error
	if t.Outcome, err = fiber.NewSimpleQueue[outcome](); err != nil {
		return outcome{}, err
	}
	defer t.Outcome.Close()
	if err := fiber.NewRing(ranks, train).Run(ctx, t); err != nil {
		return outcome{}, err
	}
	return t.Outcome.Get(ctx)
}

// run trains as one rank of size: it takes its share of each batch, and sum
// adds its gradient to those of the others.
func (t training) run(rank, size int, sum func([]float64) error) (outcome, error) {
	pictures, err := load()
	if err != nil {
		return outcome{}, err
	}
	r := rand.New(rand.NewPCG(t.Seed, 0)) // the same on all ranks
	r.Shuffle(len(pictures), func(i, j int) { pictures[i], pictures[j] = pictures[j], pictures[i] })
	heldOut, known := pictures[:len(pictures)/5], pictures[len(pictures)/5:]
	var m model
	share := func(of []picture) []picture { return of[rank*len(of)/size : (rank+1)*len(of)/size] }
	for range t.Epochs {
		r.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		for rest := known; len(rest) > 0; {
			now := rest[:min(t.Batch, len(rest))]
			rest = rest[len(now):]
			gradient := new(model)
			for i := range share(now) {
				m.loss(&share(now)[i], gradient)
			}
			if err := sum(gradient[:]); err != nil {
				return outcome{}, err
			}
			for i, g := range gradient {
				m[i] -= t.Rate / float64(len(now)) * g
			}
		}
	}
	totals := make([]float64, 2)
	for i := range share(known) {
		totals[0] += m.loss(&share(known)[i], nil)
	}
	for i := range share(heldOut) {
		if m.guess(&share(heldOut)[i]) == share(heldOut)[i].digit {
			totals[1]++
		}
	}
	if err := sum(totals); err != nil {
		return outcome{}, err
	}
	return outcome{totals[0] / float64(len(known)), totals[1] / float64(len(heldOut)), len(heldOut)}, nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Ring_sgd trains a classifier of handwritten digits, by stochastic gradient
descent, in one process and in a ring of processes, each of which works on a
part of every batch. Both see the same batches, so the losses are the same.

	go run ./examples/ring_sgd -ranks 4

Flags:
`)
	flag.PrintDefaults()
}
