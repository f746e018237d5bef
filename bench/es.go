//go:build unix

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

const (
	esWorkers    = 1024
	esPopulation = 2 * esWorkers
	esIterations = 5
	esSleep      = 460 * time.Millisecond
)

// esRows are iterations of an evolution strategy: a new theta goes to a thousand workers, and a number comes back
// from each evaluation. At best an iteration takes as long as two evaluations, 0.92 s.
var esRows = []row{
	{name: "es/1024", unit: duration, pairs: 3, open: func(_ context.Context, m *match) error { return openES(m, 100_000) }},
	{name: "es/1024-theta10", unit: duration, pairs: 3, open: func(_ context.Context, m *match) error { return openES(m, 10) }},
}

// A candidate is a member of the population.
type candidate struct {
	Theta *fiber.Shared[[]float64]
	Seed  int
}

var evaluate = fiber.Register("bench.evaluate", func(ctx context.Context, c candidate) (float64, error) {
	theta, err := c.Theta.Get(ctx)
	if err != nil {
		return 0, err
	}
	time.Sleep(esSleep)
	return fitness(theta, c.Seed), nil
}, meta.CPU(1))

// fitness reads three numbers of theta.
func fitness(theta []float64, seed int) float64 {
	n := len(theta)
	return theta[seed%n] + theta[(seed+n/3)%n] + theta[(seed+n/2)%n]
}

// An es is an evolution strategy in the middle of its iterations.
type es struct {
	theta []float64
	seeds int
}

// step makes a new theta.
func (e *es) step() {
	for i := range e.theta {
		e.theta[i] += float64(i + 1)
	}
	e.seeds += esPopulation
}

// check checks the fitness of the i-th of the population.
func (e *es) check(i int, got float64) error {
	if want := fitness(e.theta, e.seeds+i); got != want {
		return fmt.Errorf("the fitness of %d is %v instead of %v", i, got, want)
	}
	return nil
}

// openES compares the iterations of a pool with those of bare processes. Both start anew in each turn, and do an
// iteration that does not count: two thousand processes would take too much memory, and idle workers send heartbeats.
func openES(m *match, numbers int) error {
	m.subject = contender{name: "Share and Map", ops: esIterations, run: func(ctx context.Context, n int) (float64, error) {
		m := new(match)
		defer m.close()
		pool, err := warmPool(ctx, m, esWorkers, applySame)
		if err != nil {
			return 0, err
		}
		return (&es{theta: make([]float64, numbers)}).run(ctx, n, func(ctx context.Context, e *es) error { return e.iterate(ctx, pool) })
	}}
	m.references = []reference{{bound: atMost(1.25), contender: contender{name: "bare processes", ops: esIterations, run: func(ctx context.Context, n int) (float64, error) {
		m := new(match)
		defer m.close()
		theta, floors, err := openEvaluators(m, numbers)
		if err != nil {
			return 0, err
		}
		return (&es{theta: theta}).run(ctx, n, func(_ context.Context, e *es) error { return e.iterateBare(floors) })
	}}}}
	return nil
}

// run returns how long n iterations take after a first one.
func (e *es) run(ctx context.Context, n int, iterate func(context.Context, *es) error) (float64, error) {
	work := timed(func(ctx context.Context, n int) error {
		for range n {
			e.step()
			if err := iterate(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if _, err := work(ctx, 1); err != nil {
		return 0, err
	}
	return work(ctx, n)
}

// iterate shares theta, and maps the population.
func (e *es) iterate(ctx context.Context, pool *fiber.Pool) error {
	theta, err := fiber.Share(ctx, e.theta)
	if err != nil {
		return err
	}
	defer theta.Close()
	ins := make([]candidate, esPopulation)
	for i := range ins {
		ins[i] = candidate{theta, e.seeds + i}
	}
	outs, err := fiber.Map(ctx, pool, evaluate, ins)
	if err != nil {
		return err
	}
	for i, got := range outs {
		if err := e.check(i, got); err != nil {
			return err
		}
	}
	return nil
}

// openEvaluators starts bare processes that have inherited theta. Their request is a seed, and the answer its fitness.
func openEvaluators(m *match, numbers int) (theta []float64, floors []*floor, err error) {
	file, theta, unmap, err := memoryNumbers(numbers)
	if err != nil {
		return nil, nil, err
	}
	m.closing(unmap)
	defer file.Close()
	floors, err = openFloors(m, esWorkers, fmt.Sprint("evaluate:", numbers), polled, file)
	return theta, floors, err
}

// evaluateInherited returns the work of such a process.
func evaluateInherited(numbers int) (func([]byte) error, error) {
	theta, _, err := mapNumbers(4, numbers, syscall.MAP_SHARED)
	return func(b []byte) error {
		time.Sleep(esSleep)
		fit := fitness(theta, int(binary.LittleEndian.Uint64(b)))
		binary.LittleEndian.PutUint64(b, math.Float64bits(fit))
		return nil
	}, err
}

// iterateBare has one loop give each bare process its second seed for its first answer.
func (e *es) iterateBare(floors []*floor) error {
	var b [8]byte
	for i := range esPopulation + esWorkers {
		f := floors[i%esWorkers]
		if i >= esWorkers {
			if err := f.receive(b[:]); err != nil {
				return err
			}
			if err := e.check(i-esWorkers, math.Float64frombits(binary.LittleEndian.Uint64(b[:]))); err != nil {
				return err
			}
		}
		if i < esPopulation {
			binary.LittleEndian.PutUint64(b[:], uint64(e.seeds+i))
			if err := f.send(b[:]); err != nil {
				return err
			}
		}
	}
	return nil
}
