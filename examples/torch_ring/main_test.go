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

// torch skips the test if PyTorch is missing, except in CI, which installs it.
func torch(t *testing.T) {
	if err := exec.Command(*python, "-c", "import torch").Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("PyTorch is missing: .ci/run installs python3-torch")
		}
		t.Skip("PyTorch is missing: apt-get install python3-torch")
	}
}

// A script that fails in one rank ends those of the others.
func TestFailingScript(t *testing.T) {
	torch(t)
	err := fiber.NewRing(2, oneFails).Run(t.Context(), training{*python, 1})
	var failed *fiber.RingError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, failed.Rank)
	require.ErrorContains(t, err, "exit status 1")
}

var oneFails = fiber.RegisterRing("oneFails", nil, func(ctx context.Context, node *fiber.RingNode, t training) error {
	text := "import time; time.sleep(3600)"
	if node.Rank() == 1 {
		text = "raise SystemExit(1)"
	}
	cmd := exec.CommandContext(ctx, t.Python, "-c", text)
	cmd.Env = append(os.Environ(), node.TorchEnv()...)
	return cmd.Run()
})

func TestCommand(t *testing.T) {
	program := build(t)

	t.Run("train", func(t *testing.T) {
		torch(t)
		stdout, stderr, code := execute(t, program, "-ranks", "3")
		require.Zero(t, code, stderr)
		require.Regexp(t, `^Ring-1/rank-0 \| 3 ranks of PyTorch \S+ found y = 3\.00x -2\.00\n$`, stdout)
	})

	_, stderr, code := execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/torch_ring")

	_, stderr, code = execute(t, program, "-python", "/bin/false")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "/bin/false has no PyTorch: apt-get install python3-torch")

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
