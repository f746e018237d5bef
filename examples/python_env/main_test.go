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

// The policy is the same however often environments crash, and however many there are.
func TestSearch(t *testing.T) {
	best, steps, again, err := search(t.Context(), 3, 20, 1, 7, 0)
	require.NoError(t, err)
	require.Zero(t, again)
	require.Greater(t, steps, 100)

	crashed, same, again, err := search(t.Context(), 3, 20, 3, 7, 0.2)
	require.NoError(t, err)
	require.Positive(t, again) // but once in a million times
	require.Equal(t, best, crashed)
	require.Equal(t, steps, same)

	_, _, _, err = search(t.Context(), 0, 20, 1, 7, 0)
	require.ErrorContains(t, err, "-generations 0 ")
	_, _, _, err = search(t.Context(), 1, 20, 1, 7, 0.9)
	require.ErrorContains(t, err, "-crash 0.9")
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-crash", "0.05", "-generations", "2")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^The pole stands for \d+ of 500 steps, by \[[-. \d]+\]; \d+ episodes were played again\n$`, stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/python_env")

	t.Setenv("PATH", "/nowhere")
	_, stderr, code = execute(t, program)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "FIBER_BASE_IMAGE names an image with python3")
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
