// Command python_env looks for a policy that balances a pole, whose environment is a
// Python program: each worker keeps one, and plays whole episodes over its pipes. An
// environment that crashes is replaced, with its worker, and the episode is played again.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/fiber-go/fiber"
)

// Policy is the weights of the four numbers of a state: the cart's place and speed, the
// pole's angle and spin.
type Policy [4]float64

var (
	env = fiber.RegisterState("env", openEnv, closeEnv)

	play = fiber.Register("play", func(ctx context.Context, p Policy) (int, error) {
		e, err := env.Get(ctx)
		if err != nil {
			return 0, err
		}
		seed, _ := fiber.TaskSeed(ctx)
		steps, err := e.Episode(ctx, seed, p)
		if err != nil {
			return 0, fmt.Errorf("the environment is broken: %w (%w)", err, fiber.ErrReplaceWorker)
		}
		return steps, nil
	})
)

var (
	generations = flag.Int("generations", 10, "how often the best policy is varied")
	policies    = flag.Int("policies", 40, "how many policies are tried in each generation")
	workers     = flag.Int("workers", 2, "how many environments there are; 0 for one per CPU")
	seed        = flag.Uint64("seed", 1, "of all random numbers: the same seed finds the same policy")
	crash       = flag.Float64("crash", 0.01, "the share of episodes in which an environment crashes")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("python_env takes only flags, not %q; -h lists them", flag.Args())
	}
	best, steps, crashes, err := search(ctx, *generations, *policies, *workers, *seed, *crash)
	if err != nil {
		return err
	}
	fmt.Printf("The pole stands for %d of 500 steps, by %.3f; %d episodes were played again\n", steps, best, crashes)
	return nil
}

// search varies the best policy so far at random, and returns the best of all.
func search(ctx context.Context, generations, policies, workers int, seed uint64, crash float64) (best Policy, most, again int, err error) {
	if generations < 1 || policies < 1 || crash < 0 || crash > 0.5 {
		return best, 0, 0, fmt.Errorf("-generations %d -policies %d -crash %v: want at least 1 of each, and from 0 to 0.5", generations, policies, crash)
	}
	pool, err := fiber.NewPool(workers, fiber.WithState(env, crash))
	if err != nil {
		return best, 0, 0, err
	}
	defer pool.Close()
	random := rand.New(rand.NewPCG(seed, 0))
	for g := range generations {
		tried := make([]Policy, policies)
		for i := range tried {
			tried[i] = best
			for j := range tried[i] {
				tried[i][j] += random.NormFloat64()
			}
		}
		steps, err := fiber.Map(ctx, pool, play, tried, fiber.Retries(20), fiber.Backoff(0, 0), fiber.Seed(seed+uint64(g)))
		if err != nil {
			return best, 0, 0, err
		}
		for i, n := range steps {
			if n > most {
				best, most = tried[i], n
			}
		}
	}
	return best, most, pool.Stats().Retried, nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Python_env looks for a policy that balances a pole, in Python environments that crash now and then.

	go run ./examples/python_env -workers 4 -crash 0.1

It needs python3. On docker and Kubernetes, FIBER_BASE_IMAGE names an image that has it:

	FIBER_BACKEND=docker FIBER_BASE_IMAGE=python:3-slim go run ./examples/python_env

Flags:
`)
	flag.PrintDefaults()
}
