package docker

import (
	"context"
	"sync"

	"github.com/fiber-go/fiber/internal/owner"
)

// sweep removes the containers of this user's runs whose root was killed. Running
// containers of such a run end soon by themselves; sweep is for those that cannot,
// such as containers that were never started. Whether a root on another machine is
// gone, or one on this machine before its last reboot, cannot be told: its
// containers stay until a user removes them, and only take space.
func (e *engine) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all, err := e.labelled(ctx, labelRoot)
	if err != nil {
		return
	}
	var removals sync.WaitGroup
	for _, c := range all {
		if owner.Gone(c.Labels[labelRoot]) {
			removals.Go(func() { e.remove(ctx, c.ID) })
		}
	}
	removals.Wait()
}
