package docker

import (
	"context"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/master"
)

// sweepAge is how old a container must be that never ran, and of whose run
// nothing can be told, to be taken for forgotten.
const sweepAge = time.Hour

// sweep removes the containers of this user's runs whose first process was
// killed. Those that run end by themselves, soon, and are not waited for; this
// is for what could not, such as a container that was never started.
func (e *engine) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all, err := e.labelled(ctx, labelMaster)
	if err != nil {
		return
	}
	var removals sync.WaitGroup
	for _, c := range all {
		old := c.State == "created" && time.Since(time.Unix(c.Created, 0)) > sweepAge
		if old || master.Gone(c.Labels[labelMaster]) {
			removals.Go(func() { e.remove(ctx, c.ID) })
		}
	}
	removals.Wait()
}
