package simulate

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fiber-go/fiber"
)

// ruleBalance: no task waits behind a long one while a worker has nothing to do.
var ruleBalance = rule("balance")

// balancing is the work of some runs, besides others.
const balancing = "balance"

func init() {
	works[balancing] = func(ctx context.Context, w *world, r *rand.Rand) error {
		workers := 2 + r.IntN(4)
		pool, err := fiber.NewPool(workers)
		if err != nil {
			return err
		}
		defer pool.Terminate()
		err = w.ends(ctx, "WaitUntilWorkersUp", pool.WaitUntilWorkersUp)
		w.checkError("WaitUntilWorkersUp", err)
		for range 1 + r.IntN(3) {
			b := &poolBook{runs: map[[2]int]int{}}
			ins := make([]job, 1+r.IntN(300))
			var longest, sum time.Duration
			for i := range ins {
				ins[i] = job{Book: w.book(b), Index: i, Sleep: time.Duration(r.IntN(5)) * time.Millisecond}
				if r.IntN(8) == 0 {
					ins[i].Sleep = time.Duration(r.IntN(1000)) * time.Millisecond
				}
				longest, sum = max(longest, ins[i].Sleep), sum+ins[i].Sleep
			}
			begun := time.Now()
			_, err := fiber.Map(ctx, pool, work, ins, fiber.ChunkSize(1+r.IntN(len(ins))))
			w.checkError("Map", err)
			// So long does a list take that workers go through, each taking the next when it is free.
			most := sum/time.Duration(workers) + longest
			if took := time.Since(begun); took > most+moment && err == nil && len(w.run.Faults) == 0 {
				w.breach(ruleBalance, "%d tasks have taken %v instead of %v on %d workers", len(ins), took, most, workers)
			}
			w.bit(ruleBalance)
		}
		return nil
	}
}
