//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// trial is an input of a sweep.
type trial struct {
	Seed  int
	How   string
	Theta []float64
}

var sweeping = fiber.Register("sweeping", func(_ context.Context, x trial) (int, error) {
	switch x.How {
	case "exit":
		fmt.Fprintln(os.Stderr, "first\nsecond\nthird\nfourth\nat last")
		os.Exit(9)
	case "fail":
		return 0, fmt.Errorf("diverged")
	}
	return x.Seed, nil
})

// sweep fails at the tenth of 20 inputs.
func sweep(ctx context.Context) error {
	pool, err := fiber.NewPool(1, fiber.WithName("sweep"), fiber.WithMaxAttempts(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	ins := make([]trial, 20)
	for i := range ins {
		ins[i] = trial{Seed: 100 + i, Theta: make([]float64, 5000)}
	}
	ins[9].How = os.Getenv("SWEEP_HOW")
	if os.Getenv("SWEEP_BY") == "Apply" {
		_, err = fiber.Apply(ctx, pool, sweeping, ins[9])
		return err
	}
	_, err = fiber.Map(ctx, pool, sweeping, ins, fiber.ChunkSize(1), fiber.Checkpoint(os.Getenv("SWEEP_FILE")))
	return fmt.Errorf("the sweep: %w", err)
}

var _ = fibertest.MainProgram("failing sweep", sweep)

// Behind the error of a run that has failed stand a few lines: which input, in which worker, why, its last words, how many
// succeeded, and where the rest is.
func TestFailedRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		how, by string
		lines   []string // regular expressions
	}{
		{"exit", "Map", []string{
			`fiber: the run has failed: sweeping`,
			`  input      9: {Seed:109 How:"exit" Theta:\[0 0 0 … 5000 in all\]}`,
			`  worker     sweep-1, process \S+ on \S+, at attempt 1`,
			`  why        it was lost: exit code 9`,
			`  last words second`,
			`             third`,
			`             fourth`,
			`             at last`,
			`  succeeded  9 of 20; 1 failed, 10 were given up`,
			`  the rest   checkpoint \S+, log \S+`,
		}},
		{"fail", "Apply", []string{
			`fiber: the run has failed: sweeping`,
			`  input      {Seed:109 How:"fail" Theta:\[0 0 0 … 5000 in all\]}`,
			`  worker     sweep-1, at attempt 1`,
			`  why        diverged`,
			`  the rest   log \S+`,
		}},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			x := fibertest.Start(t, "failing sweep", "SWEEP_HOW="+test.how, "SWEEP_BY="+test.by, "SWEEP_FILE="+filepath.Join(dir, "kept"),
				"FIBER_LOG_FILE="+filepath.Join(dir, "log"))
			require.Equal(t, 1, x.Wait(fibertest.Patience))
			_, look, found := strings.Cut(x.Err.String(), "\n\nfiber: the run")
			require.True(t, found, x.Err.String())
			lines := strings.Split(strings.TrimSuffix("fiber: the run"+look, "\n"), "\n")
			require.Len(t, lines, len(test.lines), look)
			require.LessOrEqual(t, len(lines), 10)
			for i, line := range lines {
				require.Regexp(t, "^"+test.lines[i]+"$", line)
			}
		})
	}
}

var _ = fibertest.MainProgram("reported", func(context.Context) error { return nil })

// A program that is to write a report or serve a page, and has nothing to do so, says what to import before anything starts.
func TestReportThatNothingWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, does, pkg string }{
		{"FIBER_REPORT", filepath.Join(t.TempDir(), "file"), "write", "dashboard"},
		{"FIBER_TRACE", filepath.Join(t.TempDir(), "file"), "write", "dashboard"},
		{"FIBER_DASHBOARD", "127.0.0.1:0", "serve", "dashboard"},
		{"FIBER_METRICS", "127.0.0.1:0", "serve", "metrics"},
	} {
		x := fibertest.Start(t, "reported", c.key+"="+c.value)
		require.Equal(t, 1, x.Wait(fibertest.Patience))
		require.Equal(t, "fiber: "+c.key+" is set, but the program has nothing to "+c.does+" it with: import _ \"github.com/fiber-go/fiber/"+c.pkg+"\"\n", x.Err.String())
	}
}
