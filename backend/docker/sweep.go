package docker

import (
	"context"
	"sync"

	"github.com/fiber-go/fiber/internal/root"
)

// sweep removes the containers of this user's runs whose first process was
// killed. Those that run end by themselves, soon, and are not waited for; this
// is for what could not, such as a container that was never started. Of a run of
// another machine, or of this one before it was started anew, nothing can be told:
// such a container stays until somebody removes it, and only takes space.
func (e *engine) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all, err := e.labelled(ctx, labelRoot)
	if err != nil {
		return
	}
	var removals sync.WaitGroup
	for _, c := range all {
		if root.Gone(c.Labels[labelRoot]) {
			removals.Go(func() { e.remove(ctx, c.ID) })
		}
	}
	removals.Wait()
}
