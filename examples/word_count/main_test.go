package main

import (
	"context"
	"fmt"
	"os"
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

func TestCountAll(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	write := func(content string) {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(len(paths))))
		require.NoError(t, os.WriteFile(paths[len(paths)-1], []byte(content), 0o600))
	}
	want := counts{"last": 2}
	for i := range 9 {
		want["the"] += 30_000
		want[fmt.Sprint("word", i)] += 10_000
		write(strings.Repeat(fmt.Sprintf("The word%d, the (THE)\n", i), 10_000))
	}
	write("")
	write("last last")
	for workers := 1; workers <= 3; workers++ {
		all, err := countAll(t.Context(), paths, workers)
		require.NoError(t, err)
		require.Equal(t, want, all)
		require.Equal(t, []string{"the", "word0", "word1"}, frequent(all, 3))
	}
	_, err := countAll(t.Context(), append(paths, filepath.Join(dir, "missing")), 2)
	require.ErrorContains(t, err, "missing: no such file or directory")
}
