package ring

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// engine manages the GPUs of its jobs itself, and starts none.
type engine struct{ asked chan backend.JobSpec }

func (engine) Name() string { return "engine" }

func (engine) Network(context.Context) (backend.Network, error) {
	return backend.Network{Host: "127.0.0.1", Bind: "127.0.0.1"}, nil
}

func (e engine) Launch(_ context.Context, spec backend.JobSpec) (backend.Job, error) {
	select {
	case e.asked <- spec:
	default:
	}
	return nil, errors.New("it starts nothing")
}

// Where the engine manages the GPUs, the ranks of a ring get none of this machine's.
func TestGPUsThatTheEngineManages(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	e := engine{make(chan backend.JobSpec, 1)}
	cfg, _, err := config.Load(config.Config{}, config.Sources{})
	require.NoError(t, err)
	node, err := tree.NewRoot(cfg, e, slog.Default())
	require.NoError(t, err)
	err = Run(t.Context(), node, Spec{Name: "Ring-1", Size: 2, Func: "f", Resources: meta.Resources{GPU: 2},
		Flatten: func(err error) *wire.Error { return &wire.Error{Message: err.Error()} }})
	require.ErrorContains(t, err, "it starts nothing")
	spec := <-e.asked
	require.Equal(t, 2, spec.Resources.GPU)
	require.Empty(t, spec.Devices)
	require.NoError(t, node.Shutdown(t.Context()))
}
