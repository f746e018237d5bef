package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: what a program writes to the second file
// can be read from the first.
func terminal(t *testing.T) (screen, stdout *os.File) {
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	stdout, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { stdout.Close() })
	return screen, stdout
}

// A terminal shows one line that changes, and then the result.
func TestCommandOnATerminal(t *testing.T) {
	program := build(t)
	for _, test := range []struct {
		args []string
		code int
		last string
	}{
		{[]string{"-iterations", "30"}, 0, "Found "},
		{[]string{"-alpha", "10"}, 1, "the search diverged "},
	} {
		screen, stdout := terminal(t)
		cmd := exec.CommandContext(t.Context(), program, test.args...)
		cmd.Stdout, cmd.Stderr = stdout, stdout
		require.NoError(t, cmd.Start())
		stdout.Close()
		seen, _ := io.ReadAll(screen) // ends in EIO when the program closes the terminal
		if err := cmd.Wait(); err != nil {
			require.ErrorAs(t, err, new(*exec.ExitError))
		}
		require.Equal(t, test.code, cmd.ProcessState.ExitCode(), "%s", seen)

		lines := strings.Split(string(seen), "\r\n")
		require.Len(t, lines, 3, "%q", seen)
		progress := strings.Split(lines[0], "\r")
		require.Empty(t, progress[0])
		for i, line := range progress[1:] {
			require.Regexp(t, fmt.Sprintf(`^iteration %d/\d+  theta .*\x1b\[K$`, i+1), line)
		}
		require.True(t, strings.HasPrefix(lines[1], test.last), lines[1])
		require.Empty(t, lines[2])
	}
}
