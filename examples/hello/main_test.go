package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
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

func TestGreet(t *testing.T) {
	p, err := greet(t.Context(), "Gopher")
	require.NoError(t, err)
	code, exited := p.ExitCode()
	require.True(t, exited)
	require.Zero(t, code)
	require.NotEqual(t, os.Getpid(), p.PID())

	logs, err := p.Logs(t.Context())
	require.NoError(t, err)
	defer logs.Close()
	said, err := io.ReadAll(logs)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("Hello Gopher! This is %s (pid %d), started by MainProcess (pid %d).\n",
		p.Name(), p.PID(), os.Getpid()), string(said))
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-name", "Gopher")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^Process-1 \| Hello Gopher! This is Process-1 \(pid \d+\), started by MainProcess \(pid \d+\)\.\nDone\n$`, stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/hello")
	require.Contains(t, stderr, "-name")

	_, stderr, code = execute(t, program, "-nam", "Gopher")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-nam")

	_, stderr, code = execute(t, program, "Gopher")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `"Gopher"`)
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
