package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

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

func TestTalk(t *testing.T) {
	answers, err := talk(t.Context(), "one", "two")
	require.NoError(t, err)
	require.Equal(t, []string{`Listener heard "one"`, `Listener heard "two"`}, answers)
	require.Empty(t, fiber.ActiveChildren())
}

func TestConnect(t *testing.T) {
	for _, n := range []int{0, 1, 5000} {
		sum, err := connect(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, n*(n+1)/2, sum)
	}
	require.Eventually(t, func() bool { return len(fiber.ActiveChildren()) == 0 }, time.Minute, time.Millisecond)
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-n", "100")
	require.Zero(t, code, stderr)
	require.Equal(t, "Listener heard \"hello\"\nListener heard \"good bye\"\n"+
		"The numbers from 1 to 100 went from child to child; their sum is 5050\n", stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/pipe")
	require.Contains(t, stderr, "-n")

	for _, args := range [][]string{{"-n", "-1"}, {"Gopher"}} {
		_, stderr, code = execute(t, program, args...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, args[len(args)-1])
	}
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
