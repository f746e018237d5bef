//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// jobsOf lists the children of a process, without the guard of its run.
func jobsOf(parent int) []int {
	return slices.DeleteFunc(fibertest.ChildrenOf(parent), func(pid int) bool { return strings.HasPrefix(fibertest.CommandOf(pid), "fiber-guard") })
}

// The children of this program never say hello, and it would wait for ever.
var _ = fibertest.MainProgram("hanging start", func(ctx context.Context) error {
	p := fiber.NewProcess(fibertest.Square, 1)
	starting, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- p.Start(starting) }()
	for len(jobsOf(os.Getpid())) == 0 {
		time.Sleep(time.Millisecond)
	}
	// Nothing waits for a start but Start.
	p.Alive()
	p.ID()
	p.Done()
	p.ExitCode()
	if len(result) > 0 {
		return fmt.Errorf("the start has ended: %w", <-result)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("after a cancellation: %v", err)
	}
	if p.Alive() || p.ID() != "" {
		return errors.New("it is started")
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := p.Start(short); !errors.Is(err, context.DeadlineExceeded) { // it may be tried again
		return fmt.Errorf("after a deadline: %v", err)
	}
	if n := len(jobsOf(os.Getpid())); n != 0 {
		return fmt.Errorf("%d processes are left", n)
	}
	go func() { result <- p.Start(ctx) }()
	for len(jobsOf(os.Getpid())) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := p.Kill(); err != nil {
		return err
	}
	if err := <-result; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("after Kill: %v", err)
	}
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	go pool.WaitUntilWorkersUp(ctx)
	for len(jobsOf(os.Getpid())) == 0 {
		time.Sleep(time.Millisecond)
	}
	pool.Close()
	fmt.Println("fine", len(jobsOf(os.Getpid())), "left")
	return nil
})

// Nor do those of this one.
var _ = fibertest.MainProgram("late start", func(ctx context.Context) error {
	var launch *fiber.LaunchError
	begun := time.Now()
	if err := fiber.NewProcess(fibertest.Square, 1).Start(ctx); !errors.As(err, &launch) || !strings.Contains(err.Error(), "start_timeout") {
		return fmt.Errorf("after start_timeout: %v", err)
	}
	if took := time.Since(begun); took < 2*time.Second {
		return fmt.Errorf("start_timeout took %v", took)
	}
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	if _, err := fiber.Apply(ctx, pool, fibertest.Square, 1); !errors.As(err, &launch) {
		return fmt.Errorf("a pool that cannot start: %v", err)
	}
	pool.Close()
	fmt.Println("fine", len(jobsOf(os.Getpid())), "left")
	return nil
})

func TestStartThatHangs(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("testdata/hang.sh")
	require.NoError(t, err)
	for name, timeout := range map[string]string{"hanging start": "1h", "late start": "2s"} {
		x := fibertest.Start(t, name, "FIBER_EXECUTABLE="+script, "FIBER_START_TIMEOUT="+timeout)
		require.Zero(t, x.Wait(fibertest.Patience))
		require.Equal(t, "fine 0 left\n", x.Out.String())
		x.NobodyLeft()
	}
}

var _ = fibertest.MainProgram("many files", func(ctx context.Context) error {
	for range 1500 {
		f, err := os.Open("/dev/null")
		if err != nil {
			return err
		}
		defer f.Close()
	}
	p := fiber.NewProcess(fibertest.Exit, 7)
	if err := p.Start(ctx); err != nil {
		return err
	}
	p.Join(ctx)
	code, _ := p.ExitCode()
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	files, err := fiber.Apply(ctx, pool, countFiles, fibertest.None{})
	fmt.Println(code, files < 50)
	return err
})

var countFiles = fiber.Register("countFiles", func(context.Context, fibertest.None) (int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	return len(entries), err
})

func TestMoreThanAThousandOpenFiles(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "many files")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "7 true\n", x.Out.String())
}
