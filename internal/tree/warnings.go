package tree

import (
	"maps"
	"sync"
	"time"
)

// waitsAgain is how long a reason is not logged again.
const waitsAgain = time.Minute

// warnings are the reasons for which starts wait, as logged: a hundred processes
// that wait for the same room are worth one warning.
type warnings struct {
	mu   sync.Mutex
	said map[string]time.Time
}

// fresh says whether a reason has not been logged lately, and notes it.
func (w *warnings) fresh(reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.said[reason]) < waitsAgain {
		return false
	}
	if w.said == nil {
		w.said = map[string]time.Time{}
	}
	maps.DeleteFunc(w.said, func(_ string, at time.Time) bool { return time.Since(at) >= waitsAgain })
	w.said[reason] = time.Now()
	return true
}
