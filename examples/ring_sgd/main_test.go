package main

import (
	"bytes"
	"context"
	"fmt"

	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// TestMain makes this test binary a Fiber program: the ranks of its rings are
// processes of the same binary, which do their work in Init.
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

// The counts that the authors of the pictures publish, and the mean of all
// pixels.
func TestPictures(t *testing.T) {
	pictures, err := load()
	require.NoError(t, err)
	require.Len(t, pictures, 1797)
	var count [digits]int
	total := 0.0
	for _, p := range pictures {
		count[p.digit]++
		for _, x := range p.pixels {
			total += x
		}
	}
	require.Equal(t, [digits]int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, count)
	require.InDelta(t, 4.884164579855314, 16*total/1797/pixels, 1e-12)
}

// The gradient agrees with finite differences.
func TestGradient(t *testing.T) {
	pictures, err := load()
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	var m, gradient model
	for i := range m {
		m[i] = r.NormFloat64()
	}
	p := &pictures[7]
	m.loss(p, &gradient)
	const step = 1e-5
	for i := range m {
		up, down := m, m
		up[i] += step
		down[i] -= step
		require.InDelta(t, (up.loss(p, nil)-down.loss(p, nil))/(2*step), gradient[i], 1e-8)
	}
}

func TestRanksLearnWhatOneProcessDoes(t *testing.T) {
	alg := training{Epochs: 8, Batch: 50, Rate: 0.5, Seed: 3}
	alone, err := alg.run(0, 1, func([]float64) error { return nil })
	require.NoError(t, err)
	require.Less(t, alone.Loss, 0.3)
	require.Greater(t, alone.Accuracy, 0.9)
	for _, ranks := range []int{1, 2, 3} {
		together, err := trainTogether(t.Context(), ranks, alg)
		require.NoError(t, err)
		require.InDelta(t, alone.Loss, together.Loss, 1e-9)
		require.Equal(t, alone.Accuracy, together.Accuracy)
		require.Equal(t, 359, together.HeldOut)
	}
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-ranks", "3", "-epochs", "5")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^1 process: loss (0\.\d{9})\d{3}, 9\d\.\d% of 359 held-out digits right\n3 ranks:   loss 0\.\d{12}, 9\d\.\d% of 359 held-out digits right\n$`, stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/ring_sgd")

	_, stderr, code = execute(t, program, "-ranks", "0")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "-ranks")

	_, stderr, code = execute(t, program, "4")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `"4"`)
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
