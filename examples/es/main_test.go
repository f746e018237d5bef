package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

var defaults = settings{workers: 3, iterations: 200, population: 40, sigma: 0.1, alpha: 0.05}

func TestSearchFindsTheSolution(t *testing.T) {
	for seed := range uint64(5) {
		s := defaults
		s.seed = seed
		var distances []float64
		theta, err := search(t.Context(), s, func(i int, theta []float64) {
			require.Equal(t, len(distances)+1, i)
			distances = append(distances, distance(theta))
		})
		require.NoError(t, err)
		require.Len(t, distances, s.iterations)
		require.Greater(t, distances[0], 1.0, "seed %d", seed)
		require.Less(t, distance(theta), 0.1, "seed %d", seed)
	}
}

// The steps depend on the seed, not on the workers that score them.
func TestSearchIsRepeatable(t *testing.T) {
	s := defaults
	s.iterations = 30
	var found [][]float64
	for _, workers := range []int{1, 4} {
		s.workers = workers
		theta, err := search(t.Context(), s, func(int, []float64) {})
		require.NoError(t, err)
		found = append(found, theta)
	}
	require.Equal(t, found[0], found[1])
}

func TestSearchSaysThatItDiverges(t *testing.T) {
	s := defaults
	s.alpha = 1e10
	_, err := search(t.Context(), s, func(int, []float64) {})
	require.ErrorContains(t, err, "smaller -alpha")
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-seed", "7")
	require.Zero(t, code, stderr)
	lines := strings.Split(stdout, "\n")
	require.Len(t, lines, 12, stdout) // one of 20 iterations, the result, and the end
	require.Regexp(t, `^iteration 20/200  theta \(.*\)  distance [\d.]+$`, lines[0])
	var x, y, z, off float64
	_, err := fmt.Sscanf(lines[10], "Found (%g, %g, %g), which is %g from the solution (5.00, -5.00, 1.50)", &x, &y, &z, &off)
	require.NoError(t, err, lines[10])
	require.Less(t, distance([]float64{x, y, z}), 0.1)
	require.Less(t, off, 0.1)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/es")
	for _, flag := range []string{"-workers", "-iterations", "-population", "-sigma", "-alpha", "-seed"} {
		require.Contains(t, stderr, flag)
	}

	_, stderr, code = execute(t, program, "-sigma", "small")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-sigma")

	for _, bad := range [][]string{
		{"-iterations", "0"}, {"-population", "1"}, {"-sigma", "0"}, {"-sigma", "NaN"}, {"-alpha", "-1"}, {"-alpha", "+Inf"},
	} {
		stdout, stderr, code = execute(t, program, bad...)
		require.Equal(t, 1, code, bad)
		require.Empty(t, stdout)
		require.Contains(t, stderr, bad[0]+" "+bad[1]+": it must be")
	}

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
