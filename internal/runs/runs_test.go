package runs_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/owner"
	"github.com/fiber-go/fiber/internal/runs"
)

// here announces this process, as a run in a directory of a runtime_dir. It counts who has begun to ask, and who has stopped.
func here(t *testing.T, runtimeDir string) (opened, stopped *atomic.Int64, a *runs.Announced) {
	opened, stopped = new(atomic.Int64), new(atomic.Int64)
	a = runs.Announce(filepath.Join(runtimeDir, "fiber-run"), runs.Run{Program: "the Program", Owner: owner.Name(), Backend: "local", Began: time.Now()},
		func() (func() runs.Status, func()) {
			opened.Add(1)
			return func() runs.Status { return runs.Status{Running: 3} }, func() { stopped.Add(1) }
		})
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
	var last uint64
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
	s, err := r.Ask(t.Context())
	require.NoError(t, err)
	assert.Equal(t, last+1, s.Answer)
	assert.EqualValues(t, 2, opened.Load())

	a.Close()
	assert.EqualValues(t, 2, stopped.Load())
	assert.Empty(t, runs.List(dir))
	left, err := os.ReadDir(filepath.Join(dir, "fiber-run"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Systems remove old files from directories for temporary ones.
func TestARunIsFoundAfterItsFilesWereRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here(t, dir)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "fiber-run")))
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
	killed := put("fiber-killed", 0o700, `{"program": "p", "owner": "`+strings.Join(fields, " ")+`"}`)
	put("fiber-open", 0o770, mine)
	put("fiber-broken", 0o700, "{")
	elsewhere := put("fiber-elsewhere", 0o700, `{"program": "p", "owner": "otherboot/pid:[1] 0 1 1"}`)
	assert.Empty(t, runs.List(dir))
	assert.NoDirExists(t, killed)
	assert.DirExists(t, elsewhere)
	put("fiber-mine", 0o700, mine)
	assert.Len(t, runs.List(dir), 1)
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
