package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pod for copying stays while there are other processes in it than at first, and ends when there are none.
func TestPodForCopyingEndsWithItsProcesses(t *testing.T) {
	dir := t.TempDir()
	proc, count := filepath.Join(dir, "proc"), filepath.Join(dir, "count")
	write(t, filepath.Join(proc, "1", "stat"), "")
	write(t, filepath.Join(proc, "7", "stat"), "")
	write(t, filepath.Join(proc, "self", "stat"), "")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	sleep := fmt.Sprintf("#!/bin/sh\necho >>%s\nmkdir -p %s/25\n[ $(wc -l <%[1]s) -lt 4 ] || rm -r %[2]s/25\n", count, proc)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep"), []byte(sleep), 0o755))
	command(t, "sh", "-c", holdScript(proc))
	b, err := os.ReadFile(count)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(b), "\n"))
}

// script runs a script of fiber cp as its pod does.
func script(in []byte, args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command("sh", append([]string{"-c", scripts[args[0]]}, args...)...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestScriptsForCopying(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in", "sub", "a"), "a")
	for path, want := range map[string]string{"in": "dir\n", "in/sub/a": "file\n", "none": "none\n"} {
		out, stderr, err := script(nil, "stat", filepath.Join(dir, path))
		require.NoError(t, err, stderr)
		assert.Equal(t, want, out)
	}
	require.NoError(t, os.Link(filepath.Join(dir, "in", "sub", "a"), filepath.Join(dir, "in", "sub", "b")))
	archive, stderr, err := script(nil, "pack", filepath.Join(dir, "in", "sub"))
	require.NoError(t, err, stderr)
	out, stderr, err := script(nil, "folder", filepath.Join(dir, "new", "folder"))
	require.NoError(t, err, stderr)
	assert.Equal(t, fmt.Sprintf("%d %d\n", os.Getuid(), os.Getgid()), out)
	out, stderr, err = script([]byte(archive), "unpack", filepath.Join(dir, "new", "folder"))
	require.NoError(t, err, stderr)
	assert.Empty(t, out)
	text, err := os.ReadFile(filepath.Join(dir, "new", "folder", "sub", "a"))
	require.NoError(t, err)
	assert.Equal(t, "a", string(text))

	here := t.TempDir()
	for range 2 { // the second time over what is there
		require.NoError(t, unpack(strings.NewReader(archive), here, "other"))
	}
	for _, name := range []string{"a", "b"} { // one of them is a hard link to the other
		text, err := os.ReadFile(filepath.Join(here, "other", name))
		require.NoError(t, err)
		assert.Equal(t, "a", string(text))
	}

	for _, to := range []string{"in/sub/a", "other"} { // a file, and a folder for what is no archive
		out, stderr, err = script(bytes.Repeat([]byte("none"), 1<<20), "unpack", filepath.Join(dir, to))
		require.Error(t, err)
		assert.Equal(t, "\n", out, "the sender is told")
		assert.NotEmpty(t, stderr)
	}
}

// Copied files belong to the owner of the folder that they come into; other files keep theirs.
func TestOwnersOfCopies(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has files of several owners")
	}
	from := filepath.Join(t.TempDir(), "in")
	long := strings.Repeat("näme", 40)
	write(t, filepath.Join(from, "sub", "new"), "new")
	write(t, filepath.Join(from, long), "long")
	require.NoError(t, os.Symlink(long, filepath.Join(from, "link")))
	require.NoError(t, os.Chmod(filepath.Join(from, "sub", "new"), 0o755|os.ModeSetuid))
	var archive bytes.Buffer
	require.NoError(t, pack(&archive, from, "in", 1234, 777))
	for _, tar := range []string{"tar", "busybox tar"} {
		if _, err := exec.LookPath(strings.Fields(tar)[0]); err != nil {
			continue
		}
		to := t.TempDir()
		require.NoError(t, os.Chown(to, 1234, 777))
		old := filepath.Join(to, "in", "sub", "old")
		write(t, old, "")
		require.NoError(t, os.Chown(old, 7, 8))
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(scripts["unpack"], "tar", tar), "sh", to)
		cmd.Stdin = bytes.NewReader(archive.Bytes())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Equal(t, "7 8 644", command(t, "stat", "-c", "%u %g %a", old), tar)
		for _, name := range []string{"", "sub", "sub/new", long} {
			mode := "755"
			if name == long {
				mode = "644"
			}
			assert.Equal(t, "1234 777 "+mode, command(t, "stat", "-c", "%u %g %a", filepath.Join(to, "in", name)), tar)
		}
		text, err := os.ReadFile(filepath.Join(to, "in", "link"))
		require.NoError(t, err)
		assert.Equal(t, "long", string(text))
	}
}
