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
	"github.com/fiber-go/fiber/meta"
)

// TestMain makes this test binary a Fiber program: the processes that it
// starts are of the same binary, and do their work in Init.
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

func TestProduct(t *testing.T) {
	z, err := product(matrix{{1, 2, 3}, {4, 5, 6}}, matrix{{7, 8}, {9, 10}, {11, 12}})
	require.NoError(t, err)
	require.Equal(t, matrix{{58, 64}, {139, 154}}, z)
	for _, bad := range [][2]matrix{{{{1}}, {{1}, {2}}}, {nil, nil}, {{{1, 2}, {3}}, {{1}, {2}}}} {
		_, err := product(bad[0], bad[1])
		require.Error(t, err)
	}
}

func TestMultiply(t *testing.T) {
	n := 100
	x, y := make(matrix, n), make(matrix, n)
	for i := range n {
		x[i], y[i] = make([]float64, n), make([]float64, n)
		for j := range n {
			x[i][j] = float64(i - j)
		}
		y[i][i] = 2
	}
	z, err := fiber.Go(t.Context(), multiply, factors{x, y}).Get(t.Context())
	require.NoError(t, err)
	for i := range n {
		for j := range n {
			require.Equal(t, 2*float64(i-j), z[i][j])
		}
	}
	_, err = fiber.Go(t.Context(), multiply, factors{x, matrix{{1}}}).Get(t.Context())
	var remote *fiber.RemoteError
	require.ErrorAs(t, err, &remote)
	require.ErrorContains(t, err, "100 rows cannot be multiplied by one of 1")
}

// If the machine has GPUs, the process gets one of them; if not, it cannot
// start with one.
func TestDevice(t *testing.T) {
	one := matrix{{1}}
	_, err := fiber.Go(t.Context(), multiply, factors{one, one}, fiber.WithMeta(meta.GPU(1))).Get(t.Context())
	if len(devices()) == 0 {
		var launch *fiber.LaunchError
		require.ErrorAs(t, err, &launch)
		return
	}
	require.NoError(t, err)
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^There (are \d+ GPUs; the process gets one of its own|is no GPU; the process gets none)\.\n`, stdout)
	require.Regexp(t, `(?m)^Process-1.* \| Process-1.* has devices "[^,]*"$`, stdout)
	require.Contains(t, stdout, "\nProduct [[19 22] [43 50]]\n")

	// The devices are only lent out here, not used: any names will do.
	t.Setenv("CUDA_VISIBLE_DEVICES", "5,7")
	stdout, stderr, code = execute(t, program)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "There are 2 GPUs")
	require.Contains(t, stdout, `Process-1 has devices "5"`)

	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	stdout, stderr, code = execute(t, program)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "There is no GPU")

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/process_gpu")

	_, stderr, code = execute(t, program, "more")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `"more"`)
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
