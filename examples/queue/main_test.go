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

func TestSquareAll(t *testing.T) {
	for _, workers := range []int{1, 3} {
		squares, err := squareAll(t.Context(), workers, 100)
		require.NoError(t, err)
		require.Len(t, squares, 100)
		seen := map[int]bool{}
		for _, s := range squares {
			require.Equal(t, s.N*s.N, s.Square)
			require.Regexp(t, `^Worker-[1-3]$`, s.Worker)
			require.False(t, seen[s.N], "%d was squared twice", s.N)
			seen[s.N] = true
		}
	}
	squares, err := squareAll(t.Context(), 2, 0)
	require.NoError(t, err)
	require.Empty(t, squares)
	require.Eventually(t, func() bool { return len(fiber.ActiveChildren()) == 0 }, time.Minute, time.Millisecond)
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-workers", "2", "-jobs", "4")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^(Worker-[12]: [0-3] squared is [0149]\n){4}The sum of the squares is 14\n$`, stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/queue")
	require.Contains(t, stderr, "-workers")

	for _, args := range [][]string{{"-workers", "0"}, {"-jobs", "-1"}, {"Gopher"}} {
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
