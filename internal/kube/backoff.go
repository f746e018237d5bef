package kube

import (
	"context"
	"time"
)

// Backoff waits longer each time.
type Backoff struct {
	Longest time.Duration // 0 is 5 s
	next    time.Duration
}

// Reset has the next wait be short again.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits, no longer than until or ctx is done. It reports whether ctx is not.
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
