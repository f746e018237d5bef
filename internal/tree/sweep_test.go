package tree_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/tree"
	"github.com/fiber-go/fiber/test/objecttest"
)

// runtimeDir makes a directory for runs.
func runtimeDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "home") // a short name: a socket's path is limited
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// begin begins another run and opens its home, which is when the run sweeps. It checks that the home can be reached.
func begin(t *testing.T, dir string) (r *run, runDir string) {
	root, err := newRoot(dir)
	if !assert.NoError(t, err) {
		return nil, ""
	}
	r = &run{root, object.New(objecttest.Over(root))}
	reach(t, r)
	return r, root.Directory()
}

func newRoot(dir string) (*tree.Node, error) {
	return tree.NewRoot(config.Config{RuntimeDir: dir, MaxMessage: 1 << 20, HeartbeatInterval: time.Second,
		HeartbeatTimeout: time.Hour}, local.New(), slog.New(slog.DiscardHandler))
}

// killedRun makes what a killed run has left.
func killedRun(t *testing.T, dir string) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "fiber-1"), 0o700))
	l, err := net.Listen("unix", filepath.Join(dir, "fiber-1", "socket"))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
}

// run is a run of one process.
type run struct {
	*tree.Node
	home *object.Server
}

func (r *run) close() {
	r.home.Close()
	r.RemoveDirectory()
}

func reach(t *testing.T, r *run) {
	endpoint, err := r.home.Endpoint()
	if !assert.NoError(t, err) {
		return
	}
	conn, err := r.Dial(t.Context(), endpoint)
	if assert.NoError(t, err) {
		conn.Close()
	}
}

// The next run removes what a killed run has left, but nothing that belongs to a living one, whatever times the
// directories have.
func TestSweepGoesByNoClock(t *testing.T) {
	for _, off := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		dir := runtimeDir(t)
		living, alive := begin(t, dir)
		defer living.close()
		dead, others := filepath.Join(dir, "fiber-0123456789ab"), filepath.Join(dir, "fiber-of-others")
		strange := filepath.Join(dir, "fiber-aaaaaaaaaaaa", "fiber-1", "socket")
		for _, private := range []string{others, filepath.Dir(strange)} {
			require.NoError(t, os.MkdirAll(private, 0o700))
		}
		require.NoError(t, os.WriteFile(strange, nil, 0o600))
		killedRun(t, dead)
		for _, d := range []string{dead, others, alive, filepath.Dir(strange)} {
			require.NoError(t, os.Chtimes(d, time.Now().Add(off), time.Now().Add(off)))
		}
		next, _ := begin(t, dir)
		next.close()
		require.NoDirExists(t, dead, off)
		require.DirExists(t, others, off)
		require.FileExists(t, strange, off)
		reach(t, living)
	}
}

// A program that only starts processes, and shares nothing with them, sweeps as well.
func TestStartSweeps(t *testing.T) {
	dir := runtimeDir(t)
	dead := filepath.Join(dir, "fiber-0123456789ab")
	killedRun(t, dead)
	root, err := newRoot(dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = root.Start(ctx, tree.Spec{})
	require.Error(t, err)
	require.NoDirExists(t, dead)
}

// In a shared directory, another user may have left links.
func TestSweepFollowsNoLinks(t *testing.T) {
	dir, elsewhere := runtimeDir(t), runtimeDir(t)
	link, empty := filepath.Join(dir, "fiber-0123456789ab"), filepath.Join(elsewhere, "empty")
	require.NoError(t, os.Mkdir(empty, 0o700))
	require.NoError(t, os.Symlink(elsewhere, link))
	next, _ := begin(t, dir)
	next.close()
	require.DirExists(t, empty)
	require.FileExists(t, link)
}

// A run that comes up is not disturbed by others that sweep meanwhile, even if the clock was just put forward.
func TestSweepsBesideRunsThatBegin(t *testing.T) {
	dir := runtimeDir(t)
	over := make(chan struct{})
	var dating, runs sync.WaitGroup
	dating.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			dirs, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, d := range dirs {
				os.Chtimes(d, time.Now().Add(-24*time.Hour), time.Now().Add(-24*time.Hour))
			}
		}
	})
	for range 8 {
		runs.Go(func() {
			for range 50 {
				if r, _ := begin(t, dir); r != nil {
					r.close()
				}
			}
		})
	}
	runs.Wait()
	close(over)
	dating.Wait()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
