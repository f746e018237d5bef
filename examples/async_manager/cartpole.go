package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
)

// The constants of the cart and the pole, as in OpenAI gym's CartPole. The
// track has no friction.
const (
	gravity    = 9.8 // m/s²
	massCart   = 1.0 // kg
	massPole   = 0.1
	massTotal  = massCart + massPole
	halfLength = 0.5                   // of the pole, m
	moment     = massPole * halfLength // of the pole
	force      = 10.0                  // of a push, N
	tau        = 0.02                  // s between two states

	maxX     = 2.4                    // m from the middle of the track
	maxTheta = 12 * 2 * math.Pi / 360 // 12 degrees from upright
)

// observation is the state of the cart and the pole: position, velocity, angle
// from upright, angular velocity.
type observation [4]float64

// CartPole is a pole that stands on a cart, joined to it by a hinge. In each
// step the player pushes the cart to the left or to the right, to keep the pole
// from falling and the cart on its track (Barto, Sutton and Anderson, 1983).
type CartPole struct {
	state observation
	over  bool
	rng   *rand.Rand
}

// NewCartPole makes a CartPole. Call Reset before the first Step.
func NewCartPole(_ context.Context, seed uint64) (*CartPole, error) {
	return &CartPole{over: true, rng: rand.New(rand.NewPCG(seed, 0))}, nil
}

// Reset begins an episode close to standing still and upright.
func (c *CartPole) Reset(context.Context, struct{}) (observation, error) {
	for i := range c.state {
		c.state[i] = -0.05 + 0.1*c.rng.Float64()
	}
	c.over = false
	return c.state, nil
}

// step is the outcome of a push.
type step struct {
	Observation observation
	Reward      float64 // 1 for each step
	Done        bool    // the episode is over
}

var errOver = errors.New("the episode is over; reset first")

// Step pushes the cart, to the right if action is 1 and to the left if action
// is 0, and lets tau pass.
func (c *CartPole) Step(_ context.Context, action int) (step, error) {
	if c.over {
		return step{}, errOver
	}
	push := -force
	if action == 1 {
		push = force
	}
	xAcc, thetaAcc := accelerations(c.state, push)
	// Euler's method.
	x, v, theta, omega := c.state[0], c.state[1], c.state[2], c.state[3]
	c.state = observation{x + tau*v, v + tau*xAcc, theta + tau*omega, omega + tau*thetaAcc}
	c.over = math.Abs(c.state[0]) > maxX || math.Abs(c.state[2]) > maxTheta
	return step{c.state, 1, c.over}, nil
}

// accelerations returns the accelerations of the cart and the pole when the
// cart is pushed.
func accelerations(o observation, push float64) (x, theta float64) {
	sin, cos := math.Sincos(o[2])
	thrust := (push + moment*o[3]*o[3]*sin) / massTotal
	theta = (gravity*sin - cos*thrust) / (halfLength * (4.0/3 - massPole*cos*cos/massTotal))
	return thrust - moment*theta*cos/massTotal, theta
}
