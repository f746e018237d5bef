//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/test/fibertest"
)

// slowEngine is a backend whose SIGTERMs are long on their way.
type slowEngine struct{ *local.Backend }

func (slowEngine) Name() string { return "slowengine" }

func (b slowEngine) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	j, err := b.Backend.Launch(ctx, spec)
	return slowJob{j}, err
}

type slowJob struct{ backend.Job }

func (j slowJob) Signal(ctx context.Context, sig backend.Signal) error {
	if sig == backend.Terminate {
		return nil
	}
	return j.Job.Signal(ctx, sig)
}

func init() {
	backend.Register(backend.Plugin{Name: "slowengine", Make: func(backend.Options) (backend.Backend, error) { return slowEngine{local.New()}, nil }})
}

var untilTold = fiber.Register("untilTold", func(ctx context.Context, mark fibertest.Marking) (none struct{}, err error) {
	if err := mark.Append(); err != nil {
		return none, err
	}
	<-ctx.Done()
	mark.Line = "told"
	return none, mark.Append()
})

var _ = fibertest.MainProgram("slowEngine", func(ctx context.Context) error {
	file := os.Getenv(fibertest.ArgKey)
	p := fiber.NewProcess(untilTold, fibertest.Marking{File: file, Line: "up"})
	if err := p.Start(ctx); err != nil {
		return err
	}
	for up := false; !up; time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(file)
		up = len(b) > 0
	}
	if err := p.Terminate(); err != nil {
		return err
	}
	p.Join(ctx)
	code, _ := p.ExitCode()
	fmt.Println("ended with", code)
	return nil
}, fiber.Config{ShutdownGrace: fibertest.Patience})

// A process that its parent tells to end hears of it by their connection, however slow the engine is.
func TestTerminateWithoutTheEngine(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	x := fibertest.Start(t, "slowEngine", "FIBER_BACKEND=slowengine", fibertest.ArgKey+"="+file)
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Contains(t, x.Out.String(), "ended with 143")
	require.Equal(t, []string{"up", "told"}, fibertest.Lines(t, file))
}
