package fiber

import (
	"context"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/sim"
)

// The backend inline is for debuggers, profiles and tests: docs/inline.md.
func init() {
	backend.Register(backend.Plugin{Name: sim.Inline, Make: func(backend.Options) (backend.Backend, error) {
		return sim.NewInline(func() { self.Of().Exit(runChild()) }, func() { leave(context.Background()) }), nil
	}})
}

// unhurried has no process of the backend inline taken for lost: all of them stop
// together, for as long as one looks at a breakpoint.
func unhurried(c *config.Config) {
	if c.Backend == sim.Inline {
		c.HeartbeatTimeout = 10 * 365 * 24 * time.Hour
	}
}
