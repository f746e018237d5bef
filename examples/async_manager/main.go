// Command async_manager plays CartPole in several managers, each of which has
// an environment in a process of its own: with Call, one environment after
// another, and with CallAsync, all of them at the same time.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/fiber-go/fiber"
)

var (
	cartPoles = fiber.RegisterType("CartPole", NewCartPole)
	reset     = fiber.RegisterMethod("Reset", (*CartPole).Reset)
	push      = fiber.RegisterMethod("Step", (*CartPole).Step)
)

var (
	environments = flag.Int("environments", 4, "how many environments, each in a manager of its own")
	steps        = flag.Int("steps", 5000, "how many steps in each of them")
	seed         = flag.Uint64("seed", 1, "`number` from which the initial states are drawn")
)

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	flag.Usage = usage
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("async_manager takes only flags, not %q; -h lists them", flag.Args())
	case *environments < 1 || *steps < 1:
		return fmt.Errorf("-environments %d -steps %d: both must be at least 1", *environments, *steps)
	}
	fmt.Printf("%d steps in each of %d environments\n", *steps, *environments)
	sync, err := timed(ctx, "Call", playSync)
	if err != nil {
		return err
	}
	async, err := timed(ctx, "CallAsync", playAsync)
	if err != nil {
		return err
	}
	fmt.Printf("%.1f times as fast\n", sync.Seconds()/async.Seconds())
	return nil
}

// timed plays in fresh environments and prints how long that took.
func timed(ctx context.Context, name string, play func(context.Context, []*fiber.Proxy[*CartPole], int) (int, error)) (time.Duration, error) {
	envs, end, err := start(ctx, *environments, *seed)
	defer end()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	episodes, err := play(ctx, envs, *steps)
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	fmt.Printf("%-9s  %.3f s  %d episodes\n", name, took.Seconds(), episodes)
	return took, nil
}

// start starts n managers and makes an environment in each. end ends the
// managers.
func start(ctx context.Context, n int, seed uint64) (envs []*fiber.Proxy[*CartPole], end func(), err error) {
	var managers []*fiber.Manager
	end = func() {
		for _, m := range managers {
			m.Close()
		}
	}
	for i := range n {
		m, err := fiber.NewManager(ctx)
		if err != nil {
			return nil, end, err
		}
		managers = append(managers, m)
		env, err := fiber.NewObject(ctx, m, cartPoles, seed+uint64(i))
		if err != nil {
			return nil, end, err
		}
		if _, err := fiber.Call(ctx, env, reset, struct{}{}); err != nil {
			return nil, end, err
		}
		envs = append(envs, env)
	}
	return envs, end, nil
}

// action returns the push towards the side to which the pole leans.
func action(o observation) int {
	if o[2] > 0 {
		return 1
	}
	return 0
}

// playSync takes n steps in each environment, one environment after another,
// and counts the episodes that ended.
func playSync(ctx context.Context, envs []*fiber.Proxy[*CartPole], n int) (episodes int, err error) {
	seen := make([]observation, len(envs))
	for range n {
		for i, env := range envs {
			s, err := fiber.Call(ctx, env, push, action(seen[i]))
			if err != nil {
				return 0, err
			}
			seen[i] = s.Observation
			if s.Done {
				episodes++
				if seen[i], err = fiber.Call(ctx, env, reset, struct{}{}); err != nil {
					return 0, err
				}
			}
		}
	}
	return episodes, nil
}

// playAsync does the same, with all environments at the same time. Each
// environment runs its calls one after another and in order, so a step that
// follows a reset runs after it.
func playAsync(ctx context.Context, envs []*fiber.Proxy[*CartPole], n int) (episodes int, err error) {
	seen := make([]observation, len(envs))
	moves := make([]*fiber.Future[step], len(envs))
	resets := make([]*fiber.Future[observation], len(envs))
	for range n {
		for i, env := range envs {
			if resets[i] != nil {
				if seen[i], err = resets[i].Get(ctx); err != nil {
					return 0, err
				}
				resets[i] = nil
			}
			moves[i] = fiber.CallAsync(ctx, env, push, action(seen[i]))
		}
		for i, move := range moves {
			s, err := move.Get(ctx)
			if err != nil {
				return 0, err
			}
			seen[i] = s.Observation
			if s.Done {
				episodes++
				resets[i] = fiber.CallAsync(ctx, envs[i], reset, struct{}{})
			}
		}
	}
	return episodes, nil
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Async_manager plays CartPole in several environments, each an object in a
manager of its own, first with calls that wait for their answers and then with
calls that do not, and prints how long both took.

	go run ./examples/async_manager -steps 20000

Flags:
`)
	flag.PrintDefaults()
}
