package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// TestMain makes this test binary a Fiber program: the workers of its pools
// are processes of the same binary, which do their work in Init.
func TestMain(m *testing.M) {
	if err := fiber.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := fiber.Shutdown(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestEstimate(t *testing.T) {
	windows := windows(123)
	densities, err := estimate(t.Context(), windows, 3)
	require.NoError(t, err)
	require.Len(t, densities, 102)
	for i, w := range windows {
		want, err := density.Call(t.Context(), w) // the same, in this process
		require.NoError(t, err)
		require.Equal(t, want, densities[i], "width %v", w.Width)
	}
	require.InEpsilon(t, truth, densities[closest(densities)], 0.02)

	// Too wide a window evens the density out: the last contains all samples.
	require.InDelta(t, 1/(10.2*10.2), densities[101], 1e-4)
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-workers", "2", "-seed", "123")
	require.Zero(t, code, stderr)
	var width, estimate float64
	_, err := fmt.Sscanf(stdout, "The density of 10,000 samples at the origin, by windows of 102 widths:\n"+
		"best width %g\nestimate %g\ntruth 0.15915\n", &width, &estimate)
	require.NoError(t, err, stdout)
	require.InEpsilon(t, truth, estimate, 0.02)

	again, _, _ := execute(t, program, "-workers", "4", "-seed", "123")
	require.Equal(t, stdout, again)
	other, _, _ := execute(t, program, "-seed", "124")
	require.NotEqual(t, stdout, other)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/parzen")
	require.Contains(t, stderr, "-seed number")

	_, stderr, code = execute(t, program, "-seed", "-1")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-seed")

	_, stderr, code = execute(t, program, "-workers", "-1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "-1")
}

// build builds the real program.
func build(t *testing.T) (program string) {
	program = filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// execute runs the program and returns its output and exit code.
func execute(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
