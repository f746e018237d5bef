// Package retry paces what is tried again until it succeeds.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// first is how long the first pause is at most.
const first = 40 * time.Millisecond

// Pause returns the pause after n failed tries: first, doubled with each further one, up to longest. Up to half of it is left
// out at random: many may try again at the same time.
func Pause(first, longest time.Duration, n int) time.Duration {
	now := longest
	if n -= 1; n < 63 && first <= longest>>n {
		now = first << n
	}
	return now - rand.N(now/2+1)
}

// Pauses are the pauses between tries; see Pause.
type Pauses struct {
	Longest time.Duration // at least some milliseconds
	tries   int
}

// Next returns a channel that receives after the next pause.
func (p *Pauses) Next() <-chan time.Time {
	p.tries++
	return time.After(Pause(first, p.Longest, p.tries))
}

// Wait waits for the next pause and returns true, or returns false when ctx ends first.
func (p *Pauses) Wait(ctx context.Context) bool {
	select {
	case <-p.Next():
		return true
	case <-ctx.Done():
		return false
	}
}

// Reset makes the next pause the first again, after a success.
func (p *Pauses) Reset() { p.tries = 0 }
