package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// files are the files to count: names and contents.
func files(t *testing.T) (dir string, paths []string) {
	dir = t.TempDir()
	for _, file := range []struct{ name, content string }{
		{"two", "one\ntwo\n"},
		{"empty", ""},
		{"open end", "one\ntwo"},
		{"large", strings.Repeat("a line of some length\n", 300_000)},
		{"one long line", strings.Repeat("x", 1<<20) + "\n"},
	} {
		path := filepath.Join(dir, file.name)
		require.NoError(t, os.WriteFile(path, []byte(file.content), 0o600))
		paths = append(paths, path)
	}
	return dir, paths
}

func TestCountAll(t *testing.T) {
	dir, paths := files(t)
	missing := filepath.Join(dir, "missing")
	counts, err := countAll(t.Context(), append(paths, missing, dir, paths[0]), 3)
	require.NoError(t, err)
	var lines []int
	var reasons []string
	for i, c := range counts {
		require.Equal(t, i, c.Index)
		lines = append(lines, c.Out)
		if c.Err != nil {
			reasons = append(reasons, reason(c.Err))
		}
	}
	require.Equal(t, []int{2, 0, 1, 300_000, 1, 0, 0, 2}, lines)
	require.Equal(t, []string{"open " + missing + ": no such file or directory", "read " + dir + ": is a directory"}, reasons)
}

func TestCommand(t *testing.T) {
	program := build(t)
	dir, paths := files(t)

	stdout, stderr, code := execute(t, program, paths...)
	require.Zero(t, code, stderr)
	wc, err := exec.Command("wc", append([]string{"-l"}, paths...)...).Output()
	require.NoError(t, err)
	indent := regexp.MustCompile(`(?m)^ +`) // wc aligns by the size of the files
	require.Equal(t, indent.ReplaceAllString(string(wc), ""), indent.ReplaceAllString(stdout, ""))

	stdout, stderr, code = execute(t, program, "-workers", "1", paths[3])
	require.Zero(t, code, stderr)
	require.Equal(t, "300000 "+paths[3]+"\n", stdout)

	missing := filepath.Join(dir, "missing")
	stdout, stderr, code = execute(t, program, paths[0], missing, paths[2])
	require.Equal(t, 1, code)
	require.Equal(t, fmt.Sprintf("2 %s\n1 %s\n3 total\n", paths[0], paths[2]), stdout)
	require.Equal(t, "line_count: open "+missing+": no such file or directory\nline_count: not counted: 1 of 3\n", stderr)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/line_count")
	require.Contains(t, stderr, "-workers")

	_, stderr, code = execute(t, program, "-lines", paths[0])
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "-lines")

	for _, args := range [][]string{{}, {"-"}, {"-workers", "-1", paths[0]}} {
		stdout, stderr, code = execute(t, program, args...)
		require.Equal(t, 1, code, args)
		require.Empty(t, stdout)
		require.NotEmpty(t, stderr)
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
