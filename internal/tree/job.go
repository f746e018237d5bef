package tree

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
)

// lookAgain is how often a job is looked at that comes up.
const lookAgain = 100 * time.Millisecond

// progress is how far a job has come: see [backend.Job].
type progress struct {
	Host    string
	Reason  string
	Pending bool
}

// follow calls tell with a job's progress, and whenever that has changed, until ctx
// ends. It returns errAvoided if meanwhile the job's machine came to be avoided,
// other than those that the job was to avoid anyway: that machine may be dead, and
// silent until the start timeout.
func (n *Node) follow(ctx context.Context, j backend.Job, avoid []string, tell func(progress)) error {
	again := time.Tick(lookAgain)
	for last := (*progress)(nil); ctx.Err() == nil; {
		now := progress{Host: j.Host()}
		now.Reason, now.Pending = j.Pending()
		if n.fails(now.Host) && !slices.Contains(avoid, now.Host) {
			return errAvoided
		}
		if last == nil || now != *last {
			tell(now)
			last = &now
		}
		select {
		case <-again:
		case <-ctx.Done():
		}
	}
	return nil
}

// signal signals a job and returns when that is done.
func (n *Node) signal(name string, j backend.Job, sig backend.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), engineGrace)
	defer cancel()
	if err := j.Signal(ctx, sig); err != nil {
		n.Log.Warn("fiber: a process could not be signalled", "process", name, "id", j.ID(), "error", err)
	}
}

// removeJob removes a job from the backend.
func (n *Node) removeJob(name string, j backend.Job, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := j.Remove(ctx); err != nil {
		n.Log.Warn("fiber: a job was not removed", "process", name, "id", j.ID(), "error", err)
	}
}

const (
	// recently is how long recent remembers a key.
	recently = time.Minute
	// maxRecent is how many keys it remembers. When there are more, as if each reason
	// were another, the next ones count as known.
	maxRecent = 1000
)

// recent remembers keys: a hundred processes that wait for the same reason are
// worth one warning, and a host that does not answer is not dialled again at once.
type recent struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// add remembers a key, and says whether it was not remembered before.
func (r *recent) add(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.keys[key]; known || len(r.keys) == maxRecent {
		return false
	}
	if r.keys == nil {
		r.keys = map[string]struct{}{}
	}
	r.keys[key] = struct{}{}
	time.AfterFunc(recently, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.keys, key)
	})
	return true
}

// has says whether a key is remembered.
func (r *recent) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.keys[key]
	return known
}
