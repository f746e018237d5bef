//go:build unix

package misuse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/test/fibertest"
)

// jobless is a backend that starts nothing, and says nothing of it.
type jobless struct{}

func (jobless) Name() string { return "jobless" }
func (jobless) Network(context.Context) (backend.Network, error) {
	return backend.Network{Inherit: true}, nil
}
func (jobless) Launch(context.Context, backend.JobSpec) (backend.Job, error) { return nil, nil }

func init() {
	backend.Register(backend.Plugin{Name: "jobless", Make: func(backend.Options) (backend.Backend, error) { return jobless{}, nil }})
	backend.Register(backend.Plugin{Name: "nothing", Make: func(backend.Options) (backend.Backend, error) { return nil, nil }})
}

var _ = fibertest.MainProgram("one process", func(ctx context.Context) error {
	_, err := fiber.Go(ctx, fibertest.Square, 2).Get(ctx)
	return err
})

// A backend that returns neither what it should nor an error is named.
func TestBackendReturnsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"jobless": "its Launch has returned nil and no error", "nothing": "backend nothing: its Make has returned nil and no error"} {
		x := fibertest.Start(t, "one process", "FIBER_BACKEND="+name)
		require.Equal(t, 1, x.Wait(fibertest.Patience))
		require.Contains(t, x.Err.String(), text)
		require.Contains(t, x.Err.String(), name)
		require.NotContains(t, x.Err.String(), "goroutine ")
	}
}
