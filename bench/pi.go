//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

const piSamples = 1_000_000

// sample is the function of the README's Pi program, on workers and on goroutines alike.
func sample(_ context.Context, _ int) (bool, error) {
	x, y := rand.Float64(), rand.Float64()
	return x*x+y*y < 1, nil
}

var (
	inside         = fiber.Register("bench.inside", sample, meta.CPU(1))
	insideAnywhere = fiber.Register("bench.insideAnywhere", sample) // without a demand for CPUs
)

var piRows = []row{{name: "pi/warm", unit: duration, pairs: 9, open: openWarmPi}}

func openWarmPi(ctx context.Context, m *match) error {
	pool, err := warmPool(ctx, m, 4, func(ctx context.Context, pool *fiber.Pool) error {
		_, err := fiber.Apply(ctx, pool, inside, 0)
		return err
	})
	if err != nil {
		return err
	}
	ins := make([]int, piSamples)
	m.subject = contender{name: "Map", ops: 1, run: timed(func(ctx context.Context, _ int) error {
		return mapPi(ctx, pool, inside, ins)
	})}
	loop := contender{name: "goroutines", ops: 1, run: timed(goroutinePi)}
	python := multiprocessing(atLeast(5), 1, fmt.Sprint("pi_warm ", piSamples))
	m.references = []reference{{contender: loop, bound: atMost(2).plus(20 * time.Millisecond)}, python}
	return nil
}

func mapPi(ctx context.Context, pool *fiber.Pool, fn *fiber.Func[int, bool], ins []int) error {
	outs, err := fiber.Map(ctx, pool, fn, ins)
	if err != nil {
		return err
	}
	hits := 0
	for _, in := range outs {
		if in {
			hits++
		}
	}
	return checkPi(hits, len(ins))
}

// goroutinePi is the same loop without any overhead: one goroutine for each processor, each counting its
// own hits.
func goroutinePi(ctx context.Context, _ int) error {
	workers := runtime.GOMAXPROCS(0)
	hits := make([]int, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			n := 0
			for i := w * piSamples / workers; i < (w+1)*piSamples/workers; i++ {
				if in, _ := sample(ctx, i); in {
					n++
				}
			}
			hits[w] = n
		})
	}
	wg.Wait()
	total := 0
	for _, n := range hits {
		total += n
	}
	return checkPi(total, piSamples)
}

func checkPi(hits, samples int) error {
	if pi := 4 * float64(hits) / float64(samples); math.Abs(pi-math.Pi) > 0.02 {
		return fmt.Errorf("pi is not %g", pi)
	}
	return nil
}
