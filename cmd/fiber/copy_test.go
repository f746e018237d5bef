//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shells run the scripts of fiber cp as its pods do.
var shells = map[string][]string{"GNU": {"sh"}, "busybox": {"busybox", "sh"}}

// A pod for copying stays while there are other processes in it than at first, and ends when there are none, or when it is
// told to. It leaves no unfinished upload.
func TestPodForCopyingEndsWithItsProcesses(t *testing.T) {
	dir := t.TempDir()
	proc, count, stage := filepath.Join(dir, "proc"), filepath.Join(dir, "count"), filepath.Join(dir, "to", "stage")
	write(t, filepath.Join(proc, "1", "stat"), "")
	write(t, filepath.Join(proc, "7", "stat"), "")
	write(t, filepath.Join(proc, "self", "stat"), "")
	write(t, filepath.Join(dir, "file"), "")
	hold := func(sleep string) *exec.Cmd {
		write(t, filepath.Join(stage, "sub", "file"), "")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "sleep"), []byte("#!/bin/sh\necho >>"+count+"\n"+sleep), 0o755))
		cmd := exec.Command("sh", "-c", holdScript(proc), "sh", filepath.Join(dir, "file", "stage"), stage, filepath.Join(dir, "stage"))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		return cmd
	}
	slept := func() int {
		text, _ := os.ReadFile(count)
		return bytes.Count(text, []byte("\n"))
	}
	cmd := hold(fmt.Sprintf("mkdir -p %[2]s/25\n[ $(wc -l <%[1]s) -lt 4 ] || rm -r %[2]s/25\n", count, proc))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))
	require.Equal(t, 4, slept())
	require.NoDirExists(t, stage)

	cmd = hold("exec /bin/sleep 3600\n")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return slept() == 5 }, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, 143, cmd.ProcessState.ExitCode())
	require.NoDirExists(t, stage)
	require.DirExists(t, filepath.Dir(stage))
}

// script runs a script of fiber cp.
func script(shell string, in []byte, args ...string) (stdout, stderr string, err error) {
	command := append(append(shells[shell], "-c", scripts[args[0]]), args...)
	cmd := exec.Command(command[0], command[1:]...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// eachShell runs a test with each shell that this machine has.
func eachShell(t *testing.T, test func(t *testing.T, shell string)) {
	for name, command := range shells {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip(err)
			}
			test(t, name)
		})
	}
}

// packed returns what is sent of a file or folder, with the owner of the tests' files.
func packed(t *testing.T, from, name, end string) []byte {
	t.Helper()
	var archive bytes.Buffer
	s := sending{from: from, name: name, end: end, uid: os.Getuid(), gid: os.Getgid()}
	require.NoError(t, s.pack(&archive))
	return archive.Bytes()
}

// packedHere returns the archive of a folder that a pod would send.
func packedHere(t *testing.T, from string) []byte {
	archive := packed(t, from, "in", "end")
	return archive[:len(archive)-3*512] // without that file
}

// tree returns the content of all files in a folder, and what links lead to.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		var text []byte
		switch {
		case err != nil || d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			var link string
			link, err = os.Readlink(file)
			text = []byte("-> " + link)
		case d.Type().IsRegular():
			text, err = os.ReadFile(file)
		}
		all[rel] = string(text)
		return err
	}))
	return all
}

// over makes a folder that a copy of another one changes: files and links that it replaces, and some that stay.
func over(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in", "file"), "old")
	write(t, filepath.Join(dir, "in", "stays"), "old")
	write(t, filepath.Join(dir, "in", "sub", ".file"), "old")
	write(t, filepath.Join(dir, "in", "sub", "stays"), "old")
	write(t, filepath.Join(dir, "elsewhere", "stays"), "old")
	require.NoError(t, os.Link(filepath.Join(dir, "in", "stays"), filepath.Join(dir, "in", "hard")))
	require.NoError(t, os.Symlink("../elsewhere", filepath.Join(dir, "in", "soft")))
	return dir
}

// onto makes a folder to copy onto that of over, and returns what is there then.
func onto(t *testing.T) (from string, after map[string]string) {
	t.Helper()
	from, after = filepath.Join(t.TempDir(), "in"), tree(t, over(t))
	for _, name := range []string{"file", "hard", "soft", "new", "sub/.file", "sub/..new", "sub/with space", "sub/deep/*"} {
		write(t, filepath.Join(from, name), "new")
		after["in/"+name] = "new"
	}
	for i := range 250 {
		write(t, filepath.Join(from, "many", fmt.Sprint(i)), "")
		after[fmt.Sprintf("in/many/%d", i)] = ""
	}
	require.NoError(t, os.Symlink("no where", filepath.Join(from, "sub", "link")))
	after["in/sub/link"], after["in/many"], after["in/sub/deep"] = "-> no where", "", ""
	return from, after
}

// cuts are where an archive of this size may end too early: between two files, or in the middle of one.
func cuts(size int) (all []int) {
	for n := 0; n < size-1024; n += 512 * (1 + n/2048) {
		all = append(all, n, n+100)
	}
	return append(all, size-1024-512) // only the last file is missing
}

// An upload that does not arrive as a whole changes nothing; one that does replaces files, and merges folders.
func TestUploadIsAllOrNothing(t *testing.T) {
	t.Parallel()
	const stage = unfinished + "x"
	eachShell(t, func(t *testing.T, shell string) {
		from, after := onto(t)
		archive := packed(t, from, "in", stage)
		dir := over(t)
		before := tree(t, dir)
		for _, n := range cuts(len(archive)) {
			out, stderr, err := script(shell, archive[:n], "unpack", dir, stage)
			require.Error(t, err, n)
			require.Equal(t, "\n", out, stderr)
			require.Equal(t, before, tree(t, dir), n)
		}
		for range 2 {
			out, stderr, err := script(shell, archive, "unpack", dir, stage)
			require.NoError(t, err, stderr)
			require.Empty(t, out+stderr)
			require.Equal(t, after, tree(t, dir))
		}
	})
}

func TestDownloadIsAllOrNothing(t *testing.T) {
	t.Parallel()
	from, after := onto(t)
	archive, broken := packedHere(t, from), errors.New("broken")
	dir := over(t)
	before := tree(t, dir)
	for _, n := range append(cuts(len(archive)), len(archive)) {
		_, err := unpack(io.MultiReader(bytes.NewReader(archive[:n]), iotest.ErrReader(broken)), filepath.Join(dir, "new", "folder"), "in")
		require.ErrorIs(t, err, broken)
		_, err = unpack(io.MultiReader(bytes.NewReader(archive[:n]), iotest.ErrReader(broken)), dir, "in")
		require.ErrorIs(t, err, broken)
		require.Equal(t, before, tree(t, dir), n)
	}
	for range 2 {
		_, err := unpack(bytes.NewReader(archive), dir, "in")
		require.NoError(t, err)
		require.Equal(t, after, tree(t, dir))
	}
	_, err := unpack(bytes.NewReader(archive), filepath.Join(dir, "new", "folder"), "in")
	require.NoError(t, err)
	require.Equal(t, tree(t, from), tree(t, filepath.Join(dir, "new", "folder", "in")))
}

// What is no file, folder or link is an error if the user names it, and left out with a word in a folder. So is a link that
// leads elsewhere. Nothing is left of a copy that fails.
func TestWhatIsNotCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"in/a", "in/b", "in/c", "in/sub/d"} {
		write(t, filepath.Join(dir, filepath.Dir(name), "file"), "")
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	none := "KUBECONFIG=" + filepath.Join(dir, "none")
	for _, args := range [][]string{{"in/a", "data:x"}, {"data:x", "in/a"}} {
		_, stderr, code := fiber(t, dir, []string{none}, "cp", args[0], args[1])
		require.Equal(t, 1, code)
		require.Equal(t, "fiber: in/a is a pipe, a socket or a device: fiber cp copies files and folders\n", stderr)
	}
	var archive bytes.Buffer
	s := sending{from: filepath.Join(dir, "in"), name: "to/in", end: "end"}
	require.NoError(t, s.pack(&archive))
	require.Equal(t, "left out in/a, in/b, in/c and 1 more: pipes, sockets and devices are not copied", s.left.String())
	eachShell(t, func(t *testing.T, shell string) {
		out, stderr, err := script(shell, nil, "pack", filepath.Join(dir, "in"))
		require.NoError(t, err, stderr)
		here := t.TempDir()
		left, err := unpack(strings.NewReader(out), here, "other")
		require.NoError(t, err)
		require.ElementsMatch(t, leftOut{"other/a", "other/b", "other/c", "other/sub/d"}, left)
		require.Equal(t, map[string]string{".": "", "other": "", "other/file": "", "other/sub": "", "other/sub/file": ""}, tree(t, here))
	})

	require.NoError(t, os.Symlink("../..", filepath.Join(dir, "in", "sub", "z")))
	_, stderr, code := fiber(t, dir, []string{none}, "cp", "in", "data:x")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "in/sub/z is a link to ../.., which may lead out of in", "before a cluster is looked for")
	out, stderr, err := script("GNU", nil, "pack", filepath.Join(dir, "in"))
	require.NoError(t, err, stderr)
	here := t.TempDir()
	_, err = unpack(strings.NewReader(out), filepath.Join(here, "new"), "other")
	require.ErrorContains(t, err, "other/sub/z is a link")
	require.Len(t, tree(t, here), 1)
}

// A copy under way is no part of another copy.
func TestUnfinishedCopiesAreNotCopied(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "in", "sub", unfinished+"x", "file"), "")
	write(t, filepath.Join(from, "in", "file"), "")
	want := map[string]string{".": "", "in": "", "in/sub": "", "in/file": ""}
	out, stderr, err := script("GNU", nil, "pack", filepath.Join(from, "in"))
	require.NoError(t, err, stderr)
	_, err = unpack(strings.NewReader(out), to, "in")
	require.NoError(t, err)
	require.Equal(t, want, tree(t, to))
	to = t.TempDir()
	_, stderr, err = script("GNU", packed(t, filepath.Join(from, "in"), "in", "end"), "unpack", to, "end")
	require.NoError(t, err, stderr)
	require.Equal(t, want, tree(t, to))
}

func TestScriptsForCopying(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, shell string) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "in", "sub", "a"), "a")
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "in", "pipe"), 0o600))
		for path, want := range map[string]string{"in": "dir\n", "in/sub/a": "file\n", "in/pipe": "other\n", "none": "none\n"} {
			out, stderr, err := script(shell, nil, "stat", filepath.Join(dir, path))
			require.NoError(t, err, stderr)
			assert.Equal(t, want, out)
		}
		require.NoError(t, os.Link(filepath.Join(dir, "in", "sub", "a"), filepath.Join(dir, "in", "sub", "b")))
		archive, stderr, err := script(shell, nil, "pack", filepath.Join(dir, "in", "sub"))
		require.NoError(t, err, stderr)
		here := t.TempDir()
		for range 2 { // the second time over what is there
			_, err := unpack(strings.NewReader(archive), here, "other")
			require.NoError(t, err)
		}
		for _, name := range []string{"a", "b"} { // one of them is a hard link to the other
			text, err := os.ReadFile(filepath.Join(here, "other", name))
			require.NoError(t, err)
			assert.Equal(t, "a", string(text))
		}

		owner := fmt.Sprintf("%d %d\n", os.Getuid(), os.Getgid())
		for path, there := range map[string]string{"in/sub": "in/sub", "in/new/folder": "in", "new": "."} {
			out, stderr, err := script(shell, nil, "folder", filepath.Join(dir, path))
			require.NoError(t, err, stderr)
			assert.Equal(t, owner+filepath.Join(dir, there)+"\n", out)
		}
		_, stderr, err = script(shell, nil, "folder", filepath.Join(dir, "in", "sub", "a", "new"))
		require.Error(t, err)
		assert.Equal(t, filepath.Join(dir, "in", "sub", "a")+" is not a folder\n", stderr)

		for _, to := range []string{"in/sub/a", "in"} { // a file, and a folder for what is no archive
			out, stderr, err := script(shell, bytes.Repeat([]byte("none"), 1<<20), "unpack", filepath.Join(dir, to), "x")
			require.Error(t, err)
			assert.Equal(t, "\n", out, "the sender is told")
			assert.NotEmpty(t, stderr)
		}
		_, stderr, err = script(shell, packed(t, filepath.Join(dir, "in", "sub", "a"), "sub", "x"), "unpack", filepath.Join(dir, "in"), "x")
		require.Error(t, err, "a file does not replace a folder")
		assert.Contains(t, strings.ToLower(stderr), "directory")
		assert.NotContains(t, tree(t, dir), "in/x")
	})
}

// Copied files, and the folders that they make, belong to the owner of the folder that they come into; what is there keeps its
// owner.
func TestOwnersOfCopies(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has files of several owners")
	}
	eachShell(t, func(t *testing.T, shell string) {
		from := filepath.Join(t.TempDir(), "in")
		long := strings.Repeat("näme", 40)
		write(t, filepath.Join(from, "sub", "new"), "new")
		write(t, filepath.Join(from, "fresh", "new"), "new")
		write(t, filepath.Join(from, long), "long")
		require.NoError(t, os.Symlink(long, filepath.Join(from, "link")))
		require.NoError(t, os.Chmod(filepath.Join(from, "sub", "new"), 0o755|os.ModeSetuid))
		require.NoError(t, os.Chmod(filepath.Join(from, "fresh"), 0o555))
		for _, name := range []string{"in", "new/folder/in"} {
			var archive bytes.Buffer
			s := sending{from: from, name: name, end: "x", uid: 1234, gid: 777}
			require.NoError(t, s.pack(&archive))
			to := t.TempDir()
			require.NoError(t, os.Chown(to, 1234, 777))
			old := filepath.Join(to, "in", "sub", "old")
			write(t, old, "")
			require.NoError(t, os.Chown(old, 7, 8))
			_, stderr, err := script(shell, archive.Bytes(), "unpack", to, "x")
			require.NoError(t, err, stderr)
			want := map[string]string{"in": "0 0 755", "in/sub/old": "7 8 644", name + "/sub/new": "1234 777 755", name + "/fresh": "1234 777 755",
				name + "/" + long: "1234 777 644"}
			if name != "in" {
				want["new"], want["new/folder"], want[name] = "1234 777 755", "1234 777 755", "1234 777 755"
			}
			for file, is := range want {
				assert.Equal(t, is, command(t, "stat", "-c", "%u %g %a", filepath.Join(to, file)), file)
			}
			text, err := os.ReadFile(filepath.Join(to, name, "link"))
			require.NoError(t, err)
			assert.Equal(t, "long", string(text))
		}
	})
}

// A script has succeeded if it says so. The end of its connection alone is no success.
func TestOutcomeOfAScript(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, shell string) {
		for script, succeeds := range map[string]bool{"echo note >&2": true, "echo note >&2; exit 3": false, "echo note >&2; kill -9 $$": false} {
			command := append(shells[shell], "-c", lastWords+script)
			cmd := exec.Command(command[0], command[1:]...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			require.Equal(t, succeeds, cmd.Run() == nil)
			text, err := outcome(stderr.String(), nil)
			require.Equal(t, "note", text)
			require.Equal(t, succeeds, err == nil, "%s: %v", script, err)
		}
	})
}
