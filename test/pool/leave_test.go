//go:build unix

package pool_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// drained is a task whose machine tells its worker to end while it runs.
var drained = fiber.Register("drained", func(ctx context.Context, i int) (int, error) {
	if i%10 == 3 {
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
	select {
	case <-time.After(5 * time.Millisecond):
		return i, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
})

var _ = fibertest.MainProgram("drain", func(ctx context.Context) error {
	pool, err := fiber.NewPool(3, fiber.WithMaxAttempts(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	results, err := fiber.Map(ctx, pool, drained, fibertest.Numbers(60), fiber.ChunkSize(2))
	if err != nil {
		return err
	}
	for i, x := range results {
		if x != i {
			return fmt.Errorf("%d instead of %d", x, i)
		}
	}
	fmt.Println("lost:", pool.Stats().WorkersLost)
	return nil
})

// A worker that somebody else tells to end finishes what it runs, and what it has
// not begun runs elsewhere: nothing is lost, not even where no task may run twice.
func TestAWorkerThatIsToldToEndFinishesWhatItRuns(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "drain", "FIBER_SHUTDOWN_GRACE=10m")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "lost: 0\n", x.Out.String())
	x.NobodyLeft()
}

var _ = fibertest.MainProgram("close late", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	fiber.ApplyAsync(context.Background(), pool, fibertest.Nap, time.Hour)
	fiber.ApplyAsync(context.Background(), pool, fibertest.Rest, time.Hour)
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	for _, w := range pool.Stats().Processes {
		var pid int
		fmt.Sscan(w.ID, &pid)
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	fmt.Println("stopped")
	<-ctx.Done()
	return nil
})

// A single Ctrl-C ends a program that closes its pool, though a task heeds
// nothing and the workers are stopped.
func TestCloseEndsAfterASignal(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "close late", "FIBER_SHUTDOWN_GRACE=200ms", "FIBER_HEARTBEAT_TIMEOUT=1h")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return x.Out.String() == "stopped\n" }, "the workers are stopped")
	x.SignalRoot(syscall.SIGINT)
	require.Equal(t, 130, x.Wait(fibertest.Patience))
	x.NobodyLeft()
}
