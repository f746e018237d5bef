package kubernetes

import (
	"context"
	"strings"
	"sync"
)

// removals delete pods that have ended, in few requests: those that come while
// the cluster deletes others go into the next request together.
type removals struct {
	mu      sync.Mutex
	waiting []removal
	busy    bool
}

type removal struct {
	pod  string
	done chan<- error
}

// maxRemovals is how many pods go into one request, whose URL names them.
const maxRemovals = 100

// remove deletes a pod, and blocks until the cluster has deleted it.
func (r *removals) remove(ctx context.Context, c *cluster, pod string) error {
	done := make(chan error, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, removal{pod, done})
	if !r.busy {
		r.busy = true
		go r.run(c)
	}
	r.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run deletes pods until none are waiting.
func (r *removals) run(c *cluster) {
	for {
		r.mu.Lock()
		n := min(len(r.waiting), maxRemovals)
		all := r.waiting[:n:n]
		r.waiting = r.waiting[n:]
		if r.busy = n > 0; !r.busy {
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		err := c.removeAll(all)
		for _, one := range all {
			one.done <- err
		}
	}
}

func (c *cluster) removeAll(all []removal) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if len(all) == 1 {
		return c.Delete(ctx, "pods", all[0].pod, 0)
	}
	var names []string
	for _, one := range all {
		names = append(names, one.pod)
	}
	return c.DeleteAll(ctx, "pods", labelPod+" in ("+strings.Join(names, ",")+")")
}
