package kubernetes

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// removalPause is how long pods that have ended are gathered, to be deleted in one request.
	removalPause = time.Second
	// maxRemovals is how many pods go into one request, whose URL names them.
	maxRemovals = 100
)

// removals gathers the names of pods that have ended.
type removals struct {
	mu   sync.Mutex
	pods []string
	due  bool // run will be called
}

// add has a pod deleted in a moment, together with others. What fails is tried
// again together with the next pods, and by [Backend.Close].
func (r *removals) add(c *cluster, log *slog.Logger, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, pod)
	if !r.due {
		r.due = true
		time.AfterFunc(removalPause, func() { r.run(c, log) })
	}
}

// take returns the pods that have been gathered, and forgets them.
func (r *removals) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	pods := r.pods
	r.pods, r.due = nil, false
	return pods
}

// run deletes the pods that have been gathered.
func (r *removals) run(c *cluster, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	for some := range slices.Chunk(r.take(), maxRemovals) {
		if err := c.DeleteAll(ctx, "pods", labelPod+" in ("+strings.Join(some, ",")+")"); err != nil {
			log.Warn("fiber: pods that have ended were not deleted yet", "pods", len(some), "error", err)
			r.mu.Lock()
			r.pods = append(r.pods, some...)
			r.mu.Unlock()
		}
	}
}
