//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
)

var managerRows = []row{
	{name: "manager/call", unit: duration, pairs: 25, open: openManagerCall},
	{name: "manager/cartpole-sync", unit: duration, pairs: 5, open: openCartPoleSync},
	{name: "manager/cartpole-async", unit: duration, pairs: 5, open: openCartPoleAsync},
}

// counter is an object with a small method to call.
type counter struct{ n int }

func (c *counter) Add(_ context.Context, n int) (int, error) {
	c.n += n
	return c.n, nil
}

// Process returns the process that the object lives in.
func (c *counter) Process(context.Context, struct{}) (int, error) { return os.Getpid(), nil }

var (
	counters       = fiber.RegisterType("bench.counter", func(context.Context, int) (*counter, error) { return new(counter), nil })
	counterAdd     = fiber.RegisterMethod("Add", (*counter).Add)
	counterProcess = fiber.RegisterMethod("Process", (*counter).Process)
)

// openManager starts a manager that lives as long as the match.
func openManager(ctx context.Context, m *match) (*fiber.Manager, error) {
	manager, err := fiber.NewManager(ctx, fiber.WithMeta(meta.CPU(1)))
	if err == nil {
		m.closing(func() { manager.Close() })
	}
	return manager, err
}

// openCounter makes a counter in a manager of its own.
func openCounter(ctx context.Context, m *match) (*fiber.Proxy[*counter], error) {
	manager, err := openManager(ctx, m)
	if err != nil {
		return nil, err
	}
	return fiber.NewObject(ctx, manager, counters, 0)
}

// openManagerCall measures Call of a small method against 64 bytes there and back over a bare socket, and
// against a method of an object in a manager of multiprocessing's.
func openManagerCall(ctx context.Context, m *match) error {
	object, err := openCounter(ctx, m)
	if err != nil {
		return err
	}
	m.subject = contender{name: "Call", run: timed(func(ctx context.Context, n int) error {
		last, err := fiber.Call(ctx, object, counterAdd, 0)
		if err != nil {
			return err
		}
		for i := range n {
			out, err := fiber.Call(ctx, object, counterAdd, 1)
			if err != nil {
				return err
			}
			if out != last+i+1 {
				return fmt.Errorf("got %d for %d", out, last+i+1)
			}
		}
		return nil
	})}
	raw, err := rawEcho(m, 64)
	if err != nil {
		return err
	}
	python := multiprocessing(atLeast(1), 0, "manager_call")
	m.references = []reference{{contender: raw, bound: atMost(2.5)}, python}
	return nil
}

// cartPole is OpenAI gym's CartPole-v0 dynamics; see examples/async_manager.
type cartPole struct {
	x, xDot, theta, thetaDot float64
	rand                     *rand.Rand
}

type stepResult struct {
	Observation [4]float64
	Reward      float64
	Done        bool
}

func (c *cartPole) Reset(context.Context, struct{}) ([4]float64, error) {
	for _, v := range []*float64{&c.x, &c.xDot, &c.theta, &c.thetaDot} {
		*v = c.rand.Float64()*0.1 - 0.05
	}
	return [4]float64{c.x, c.xDot, c.theta, c.thetaDot}, nil
}

func (c *cartPole) Step(_ context.Context, action int) (stepResult, error) {
	force := -10.0
	if action == 1 {
		force = 10
	}
	sin, cos := math.Sincos(c.theta)
	const pole, total, length, tau = 0.1 * 0.5, 1.1, 0.5, 0.02
	temp := (force + pole*c.thetaDot*c.thetaDot*sin) / total
	thetaAcc := (9.8*sin - cos*temp) / (length * (4.0/3 - 0.1*cos*cos/total))
	xAcc := temp - pole*thetaAcc*cos/total
	c.x += tau * c.xDot
	c.xDot += tau * xAcc
	c.theta += tau * c.thetaDot
	c.thetaDot += tau * thetaAcc
	done := math.Abs(c.x) > 2.4 || math.Abs(c.theta) > 12*2*math.Pi/360
	return stepResult{[4]float64{c.x, c.xDot, c.theta, c.thetaDot}, 1, done}, nil
}

var (
	cartPoles = fiber.RegisterType("bench.cartPole", func(_ context.Context, seed uint64) (*cartPole, error) {
		return &cartPole{rand: rand.New(rand.NewPCG(seed, 0))}, nil
	})
	cartPoleReset = fiber.RegisterMethod("Reset", (*cartPole).Reset)
	cartPoleStep  = fiber.RegisterMethod("Step", (*cartPole).Step)
)

// environments is how many managers play, each with one environment.
const environments = 4

// openCartPoles starts the managers and makes an environment in each.
func openCartPoles(ctx context.Context, m *match) ([]*fiber.Proxy[*cartPole], error) {
	var envs []*fiber.Proxy[*cartPole]
	for i := range environments {
		manager, err := openManager(ctx, m)
		if err != nil {
			return nil, err
		}
		env, err := fiber.NewObject(ctx, manager, cartPoles, uint64(i))
		if err != nil {
			return nil, err
		}
		if _, err := fiber.Call(ctx, env, cartPoleReset, struct{}{}); err != nil {
			return nil, err
		}
		envs = append(envs, env)
	}
	return envs, nil
}

// playSync takes n steps in each environment, one call after another.
func playSync(ctx context.Context, envs []*fiber.Proxy[*cartPole], n int) error {
	for i := range n {
		for e, env := range envs {
			result, err := fiber.Call(ctx, env, cartPoleStep, (i+e)&1)
			if err == nil && result.Done {
				_, err = fiber.Call(ctx, env, cartPoleReset, struct{}{})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// playAsync takes n steps in each environment, all environments at the same time.
func playAsync(ctx context.Context, envs []*fiber.Proxy[*cartPole], n int) error {
	steps := make([]*fiber.Future[stepResult], len(envs))
	for i := range n {
		for e, env := range envs {
			steps[e] = fiber.CallAsync(ctx, env, cartPoleStep, (i+e)&1)
		}
		for e, step := range steps {
			result, err := step.Get(ctx)
			if err != nil {
				return err
			}
			if result.Done { // the reset runs before the next step
				fiber.CallAsync(ctx, envs[e], cartPoleReset, struct{}{})
			}
		}
	}
	return nil
}

func openCartPoleSync(ctx context.Context, m *match) error {
	envs, err := openCartPoles(ctx, m)
	if err != nil {
		return err
	}
	const steps = 1000
	m.subject = contender{name: "Call", ops: steps, run: timed(func(ctx context.Context, n int) error { return playSync(ctx, envs, n) })}
	sockets, err := rawSteps(m, false)
	if err != nil {
		return err
	}
	python := multiprocessing(atLeast(1.5), steps, "cartpole")
	m.references = []reference{{contender: sockets}, python}
	return nil
}

func openCartPoleAsync(ctx context.Context, m *match) error {
	envs, err := openCartPoles(ctx, m)
	if err != nil {
		return err
	}
	const steps = 1000
	m.subject = contender{name: "CallAsync", ops: steps, run: timed(func(ctx context.Context, n int) error { return playAsync(ctx, envs, n) })}
	sockets, err := rawSteps(m, true)
	if err != nil {
		return err
	}
	sync := contender{name: "Call", ops: steps, run: timed(func(ctx context.Context, n int) error { return playSync(ctx, envs, n) })}
	python := multiprocessing(atLeast(5), steps, "cartpole")
	m.references = []reference{{contender: sockets}, {contender: sync, bound: atLeast(2.2)}, python}
	return nil
}

// rawSteps sends 64 bytes to as many processes as there are environments, and back, over blocking sockets: to one
// after another, or to all at once.
func rawSteps(m *match, together bool) (contender, error) {
	var far []*floor
	for range environments {
		f, err := openFloor(m, "block:64", blocking)
		if err != nil {
			return contender{}, err
		}
		far = append(far, f)
	}
	out, in := make([]byte, 64), make([]byte, 64)
	return contender{name: "blocking sockets", ops: 1000, run: timed(func(_ context.Context, n int) error {
		for range n {
			for _, f := range far {
				err := f.send(out)
				if err == nil && !together {
					err = f.receive(in)
				}
				if err != nil {
					return err
				}
			}
			for _, f := range far {
				if !together {
					break
				}
				if err := f.receive(in); err != nil {
					return err
				}
			}
		}
		return nil
	})}, nil
}
