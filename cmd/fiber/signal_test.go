//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// begin starts the command, and returns it and its stderr.
func begin(t *testing.T, env []string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(append(os.Environ(), commandKey+"=1"), env...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewReader(stderr)
}

// A build that is interrupted leaves neither the compiler nor a folder, also if the signal, as that of a terminal, reaches the
// compiler first.
func TestInterruptedBuild(t *testing.T) {
	t.Parallel()
	tools, temporary := t.TempDir(), t.TempDir()
	write(t, filepath.Join(tools, "go"), "#!/bin/sh\necho go $$ >&2\nexec sleep 3600\n")
	require.NoError(t, os.Chmod(filepath.Join(tools, "go"), 0o755))
	env := []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "TMPDIR=" + temporary}
	for i, args := range [][]string{{"--backend", "local"}, {"--backend", "docker"}, {"--backend", "local"}} {
		cmd, stderr := begin(t, env, append(append([]string{"run"}, args...), "example.com/p")...)
		said, err := stderr.ReadString('\n')
		require.NoError(t, err)
		var compiler int
		_, err = fmt.Sscanf(said, "go %d", &compiler)
		require.NoError(t, err, said)
		if i == 2 {
			require.NoError(t, syscall.Kill(compiler, syscall.SIGINT))
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		rest, err := io.ReadAll(stderr) // until the compiler has ended, too
		require.NoError(t, err)
		require.Empty(t, string(rest))
		require.Error(t, cmd.Wait())
		require.Equal(t, 130, cmd.ProcessState.ExitCode())
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A first Ctrl-C waits for a pod that the cluster may make, and says so; a second one does not.
func TestSecondSignalWhileThePodIsMade(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	defer close(answer)
	cluster := fakeCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
			asked <- struct{}{}
			<-answer
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind": "NodeList", "apiVersion": "v1", "items": []}`)
	})
	cmd, stderr := begin(t, []string{cluster}, "run", "--backend", "kubernetes", "--image", "x:y", "sh")
	<-asked
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	said, err := stderr.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "fiber: what is under way has yet to end; a second Ctrl-C ends it at once\n", said)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
}
