//go:build unix

package runs_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/owner"
	"github.com/fiber-go/fiber/internal/runs"
)

const ofRun = "fiber-0123456789ab"

// here announces this process, as a run in a directory of a runtime_dir. It counts who has begun to ask, and who has stopped.
func here(t *testing.T, runtimeDir string) (opened, stopped *atomic.Int64, a *runs.Announced) {
	opened, stopped = new(atomic.Int64), new(atomic.Int64)
	a = runs.Announce(filepath.Join(runtimeDir, ofRun), runs.Run{Program: "the Program", Owner: owner.Name(), Backend: "local", Began: time.Now()},
		runs.Answers{Status: func() runs.Status { return runs.Status{Running: 3} }, Watch: func() func() {
			opened.Add(1)
			return func() { stopped.Add(1) }
		}})
	t.Cleanup(a.Close)
	return opened, stopped, a
}

func TestARunIsFoundAndAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opened, stopped, a := here(t, dir)
	all := runs.List(dir)
	require.Len(t, all, 1)
	r := all[0]
	assert.Equal(t, os.Getpid(), r.PID())
	assert.Regexp(t, `^the-program-\d+$`, r.Name())
	s, err := r.AskOnce(t.Context())
	require.NoError(t, err)
	last := s.Answer
	assert.Zero(t, opened.Load(), "somebody asks once")
	for range 3 {
		s, err := r.Ask(t.Context())
		require.NoError(t, err)
		assert.Greater(t, s.Answer, last)
		assert.Equal(t, 3, s.Running)
		assert.Positive(t, s.Up)
		last = s.Answer
	}
	assert.EqualValues(t, 1, opened.Load(), "somebody asks all the time")
	require.Eventually(t, func() bool { return stopped.Load() == 1 }, time.Minute, 10*time.Millisecond, "nobody asks any more")
	s, err = r.Ask(t.Context())
	require.NoError(t, err)
	assert.Equal(t, last+1, s.Answer)
	assert.EqualValues(t, 2, opened.Load())

	a.Close()
	assert.EqualValues(t, 2, stopped.Load())
	assert.Empty(t, runs.List(dir))
	left, err := os.ReadDir(filepath.Join(dir, ofRun))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Systems remove old files from directories for temporary ones.
func TestARunIsFoundAfterItsFilesWereRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here(t, dir)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ofRun)))
	require.Eventually(t, func() bool { return len(runs.List(dir)) == 1 }, time.Minute, 10*time.Millisecond)
	_, err := runs.List(dir)[0].Ask(t.Context())
	require.NoError(t, err)
}

// What a root that was killed has left is removed when somebody looks; what others have made does not count.
func TestWhatIsNoRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, mode os.FileMode, text string) string {
		of := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(of, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(of, "run.json"), []byte(text), 0o600))
		require.NoError(t, os.Chmod(of, mode))
		return of
	}
	mine := `{"program": "p", "owner": "` + owner.Name() + `"}`
	fields := strings.Fields(owner.Name())
	fields[3] = "1" // of a process that had this number before
	killed := put("fiber-00000000000a", 0o700, `{"program": "p", "owner": "`+strings.Join(fields, " ")+`"}`)
	put("fiber-00000000000b", 0o770, mine)
	put("fiber-00000000000c", 0o700, "{")
	elsewhere := put("fiber-00000000000d", 0o700, `{"program": "p", "owner": "otherboot/pid:[1] 0 1 1"}`)
	assert.Empty(t, runs.List(dir))
	assert.NoDirExists(t, killed)
	assert.DirExists(t, elsewhere)
	put("fiber-00000000000e", 0o700, mine)
	assert.Len(t, runs.List(dir), 1)
}

// Others may know the name of a run's directory, and make one of that name once it was removed. They are neither written to nor read.
func TestADirectoryOfOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a[b]*")
	_, _, a := here(t, dir)
	assert.Empty(t, runs.List(dir), "there was no directory to make one in")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.Eventually(t, func() bool { return len(runs.List(dir)) == 1 }, time.Minute, 10*time.Millisecond)

	run, victim := filepath.Join(dir, ofRun), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.RemoveAll(run))
	require.NoError(t, os.Mkdir(run, 0o700))
	require.NoError(t, os.Chmod(run, 0o777)) // as another user's
	for _, name := range []string{"run.json~", "status.json~"} {
		require.NoError(t, os.Symlink(victim, filepath.Join(run, name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(run, "run.json"), 0o666))
	require.NoError(t, syscall.Mkfifo(filepath.Join(run, "ask"), 0o666))
	assert.Empty(t, runs.List(dir))
	assert.False(t, runs.Sweep(run))
	time.Sleep(3 * time.Second) // it looks meanwhile
	said, err := os.ReadFile(victim)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(said))
	require.NoError(t, os.Rename(run, run+"x"))
	require.NoError(t, os.Symlink(t.TempDir(), run))
	time.Sleep(2 * time.Second)
	require.NoError(t, os.Remove(run))
	require.Eventually(t, func() bool { return len(runs.List(dir)) == 1 }, time.Minute, 10*time.Millisecond)
	a.Close()
}

// A root may be killed while it writes.
func TestWhatAKilledRootHasLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	of := filepath.Join(dir, ofRun)
	require.NoError(t, os.Mkdir(of, 0o700))
	for _, name := range []string{"ask", "status.json", "status.json~", "run.json~"} {
		require.NoError(t, os.WriteFile(filepath.Join(of, name), nil, 0o600))
	}
	assert.Empty(t, runs.List(dir))
	assert.DirExists(t, of, "its root may be about to write")
	past := time.Now().Add(-2 * time.Minute)
	require.NoError(t, os.Chtimes(of, past, past))
	assert.Empty(t, runs.List(dir))
	assert.NoDirExists(t, of)
}

func TestAskOverAConnection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go runs.Serve(l, func() string { return dir })
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	a, err := runs.AskOver(conn)
	require.NoError(t, err)
	assert.Contains(t, a.Err, "does not use Fiber")
	here(t, dir)
	for range 2 {
		a, err = runs.AskOver(conn)
		require.NoError(t, err)
		assert.Empty(t, a.Err)
		assert.Equal(t, 3, a.Status.Running)
	}
}

func TestAskOfWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _, a := here(t, dir)
	r := runs.List(dir)[0]
	a.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := r.Ask(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
