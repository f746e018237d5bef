// Command parzen estimates a probability density from samples with Parzen
// windows of 102 widths, each a task of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/fiber-go/fiber"
)

// window is a square around a point; each task carries one, with all samples.
type window struct {
	Samples [][]float64 // n x 2
	Point   []float64   // its centre
	Width   float64
}

// density estimates the density of the samples at the point: the share of them
// inside the window, divided by its area.
var density = fiber.Register("density", func(ctx context.Context, w window) (float64, error) {
	held := 0
	for _, sample := range w.Samples {
		if w.holds(sample) {
			held++
		}
	}
	share := float64(held) / float64(len(w.Samples))
	return share / math.Pow(w.Width, float64(len(w.Point))), nil
})

func (w window) holds(sample []float64) bool {
	for i, x := range sample {
		if math.Abs(x-w.Point[i]) > w.Width/2 {
			return false
		}
	}
	return true
}

var (
	workers = flag.Int("workers", 4, "how many processes estimate; 0 for one per CPU")
	seed    = flag.Uint64("seed", 1, "`number` from which the samples are drawn")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("parzen takes only flags, not %q; -h lists them", flag.Args())
	}
	windows := windows(*seed)
	densities, err := estimate(ctx, windows, *workers)
	if err != nil {
		return err
	}
	best := closest(densities)
	fmt.Printf("The density of 10,000 samples at the origin, by windows of %d widths:\n", len(windows))
	fmt.Printf("best width  %.1f\n", windows[best].Width)
	fmt.Printf("estimate    %.5f\n", densities[best])
	fmt.Printf("truth       %.5f\n", truth)
	return nil
}

// truth is the density of the standard normal distribution in the plane at
// its centre.
const truth = 1 / (2 * math.Pi)

// windows returns windows of 102 widths, from 0.1 to 10.2, around the origin,
// with 10,000 samples of the standard normal distribution in the plane.
func windows(seed uint64) []window {
	rng := rand.New(rand.NewPCG(seed, 0))
	samples := make([][]float64, 10_000)
	for i := range samples {
		samples[i] = []float64{rng.NormFloat64(), rng.NormFloat64()}
	}
	windows := make([]window, 102)
	for i := range windows {
		windows[i] = window{Samples: samples, Point: []float64{0, 0}, Width: float64(i+1) / 10}
	}
	return windows
}

// estimate estimates the density by each window, on a pool, and returns the
// estimates in the order of the windows.
func estimate(ctx context.Context, windows []window, workers int) ([]float64, error) {
	pool, err := fiber.NewPool(workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	futures := make([]*fiber.Future[float64], len(windows))
	for i, w := range windows {
		futures[i] = fiber.ApplyAsync(ctx, pool, density, w)
	}
	densities := make([]float64, len(windows))
	for i, future := range futures {
		if densities[i], err = future.Get(ctx); err != nil {
			return nil, err
		}
	}
	return densities, nil
}

// closest returns the index of the estimate that is closest to the truth.
func closest(densities []float64) int {
	best := 0
	for i, d := range densities {
		if math.Abs(d-truth) < math.Abs(densities[best]-truth) {
			best = i
		}
	}
	return best
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Parzen draws 10,000 samples of the standard normal distribution in the plane
and estimates its density at the origin by square windows of 102 widths, each
a task for a pool of processes. It prints the width that comes closest.

	go run ./examples/parzen -workers 2 -seed 7

Flags:
`)
	flag.PrintDefaults()
}
