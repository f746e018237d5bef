// Package retry paces what is tried again until it succeeds.
package retry

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// first is how long the first pause is at most.
const first = 40 * time.Millisecond

// Pauses are the pauses between tries. Each is about twice as long as the one before, up to Longest. Up to half of it is left
// out at random: many processes may try again at the same time.
type Pauses struct {
	Longest time.Duration // at least some milliseconds
	next    time.Duration
}

// Next returns a channel that receives after the next pause.
func (p *Pauses) Next() <-chan time.Time {
	now := min(cmp.Or(p.next, first), p.Longest)
	p.next = 2 * now
	return time.After(now - rand.N(now/2))
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
func (p *Pauses) Reset() { p.next = 0 }
