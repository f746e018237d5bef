package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
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
	pi, err := estimate(t.Context(), 200_000, 2)
	require.NoError(t, err)
	require.InDelta(t, math.Pi, pi, 0.03) // eight standard deviations

	_, err = estimate(t.Context(), 0, 2)
	require.ErrorContains(t, err, "-samples 0: ")
	_, err = estimate(t.Context(), 1, -1)
	require.ErrorContains(t, err, "-1")
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-samples", "200000", "-workers", "3")
	require.Zero(t, code, stderr)
	var pi float64
	_, err := fmt.Sscanf(stdout, "Pi is roughly %g\n", &pi)
	require.NoError(t, err, stdout)
	require.InDelta(t, math.Pi, pi, 0.03)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/pi")
	require.Contains(t, stderr, "(default 1000000)")

	_, stderr, code = execute(t, program, "-samples", "many")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-samples")

	stdout, stderr, code = execute(t, program, "-samples", "-5")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.Equal(t, "-samples -5: it must be from 1 to 1,000,000,000\n", stderr)

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
