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

const output = `before:
namespace  x: 1, y: [1], z: [1]
list       0: 1, 1: [1], 2: [1], 3: managed [1]
dict       0: 1, 1: [1], 2: [1], 3: managed [1]
after another process has added one to each:
namespace  x: 2, y: [1], z: [2]
list       0: 2, 1: [1], 2: [2], 3: managed [2]
dict       0: 2, 1: [1], 2: [2], 3: managed [2]
3 + 4 = 7, and 7 * 8 = 56 in another process; the calculator remembers [7 56]
`

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program)
	require.Zero(t, code, stderr)
	require.Equal(t, output, stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/shared_data")

	_, stderr, code = execute(t, program, "-x")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-x")

	_, stderr, code = execute(t, program, "all")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `"all"`)
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
