package kube

import (
	"context"
	"time"
)

// Backoff waits longer each time.
type Backoff struct {
	Longest time.Duration // of a wait; 0 is 5 s
	next    time.Duration
}

// Reset makes the next wait short again.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits for some time, or until the channel until is closed or ctx ends. It returns false if ctx has ended.
func (b *Backoff) Wait(ctx context.Context, until <-chan struct{}) bool {
	longest := b.Longest
	if longest == 0 {
		longest = 5 * time.Second
	}
	b.next = min(max(2*b.next, 100*time.Millisecond), longest)
	wait := time.NewTimer(b.next)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-until:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
