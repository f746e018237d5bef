//go:build unix

package tree

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// soon runs f, which must return within a minute.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		require.FailNow(t, what+" does not return")
	}
}

// deafKey makes a child say hello and read nothing.
const deafKey = "LAUNCH_TEST_DEAF"

func deaf() int {
	boot, err := bootstrap()
	if err != nil {
		return 1
	}
	conn, err := connect(context.Background(), boot)
	if err != nil {
		return 1
	}
	conn.Send(context.Background(), wire.MustPack(wire.KindHello, newHello(*boot, os.Getpid()))...)
	time.Sleep(time.Minute)
	return 1
}

// A start ends with its context, even if the process does not read all of the
// work that it was sent.
func TestStartOfAProcessThatReadsNothing(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := n.Start(ctx, Spec{Name: "deaf", Value: [][]byte{make([]byte, 32<<20)}})
		failed <- err
	}()
	waitFor(t, func() bool { // until it has reported
		n.listener.mu.Lock()
		defer n.listener.mu.Unlock()
		return n.listener.listener != nil && len(n.listener.waiting) == 0
	})
	time.AfterFunc(500*time.Millisecond, cancel) // by now it has been sent as much as it takes
	soon(t, "Start", func() { require.ErrorIs(t, <-failed, context.Canceled) })
}

// waited is a job that has had to wait for its start.
type waited struct{ backend.Job }

func (waited) Pending() (string, bool) { return "no room", false }

// A process that has been sent its work has started, whatever becomes of the start's context: it may be at work. If its
// parent is about to end, it is told so.
func TestStartThatIsGivenUpTooLate(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"its ctx", "the parent"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, b := root(t, "127.0.0.1")
			b.wrap = func(j backend.Job) backend.Job { return waited{j} }
			ctx, cancel := context.WithCancel(t.Context())
			c, err := n.Start(ctx, Spec{Name: "wait", Pending: func(reason string) {
				if reason == "" { // it has been sent its work
					if cancel(); what == "the parent" {
						n.Terminate()
					}
				}
			}})
			require.NoError(t, err)
			if what == "its ctx" {
				require.NoError(t, c.Terminate())
			}
			require.Equal(t, 143, awaited(t, c).Code)
		})
	}
}

// unruly is a job whose engine does not do as it is told.
type unruly struct {
	backend.Job
	lost chan struct{} // closed when it takes the job for ended
	err  error         // or for one that never started
}

func (j unruly) Wait(ctx context.Context) (backend.ExitStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan backend.ExitStatus, 1)
	go func() {
		if status, err := j.Job.Wait(ctx); err == nil {
			ended <- status
		}
	}()
	select {
	case status := <-ended:
		return status, nil
	case <-j.lost:
		if j.err != nil {
			return backend.ExitStatus{}, j.err
		}
		return backend.ExitStatus{Code: 137, Reason: "lost from sight"}, nil
	case <-ctx.Done():
		return backend.ExitStatus{}, ctx.Err()
	}
}

func (unruly) Signal(context.Context, backend.Signal) error {
	return errors.New("the engine does not answer")
}

// Processes end even if the engine does not answer.
func TestShutdownWithoutTheEngine(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	b.wrap = func(j backend.Job) backend.Job { return unruly{Job: j} }
	c := started(t, n, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	soon(t, "Shutdown", func() { require.NoError(t, n.Shutdown(ctx)) })
	require.Equal(t, 137, awaited(t, c).Code)
}

// A process that lives on after its engine has lost sight of it is let go.
func TestProcessThatIsLostFromSight(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	lost := make(chan struct{})
	b.wrap = func(j backend.Job) backend.Job { return unruly{Job: j, lost: lost} }
	c := started(t, n, "wait")
	close(lost)
	soon(t, "its end", func() { <-c.Done() })
	require.Equal(t, "lost from sight", c.Exit().Reason)
}

// A process that is up has not ended well because its engine, which does not know that yet, says that it will never start.
func TestProcessWhoseStartWasMissed(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	lost := make(chan struct{})
	b.wrap = func(j backend.Job) backend.Job {
		return unruly{Job: j, lost: lost, err: &backend.LaunchError{Reason: "its pod was deleted"}}
	}
	c := started(t, n, "wait")
	close(lost)
	soon(t, "its end", func() { <-c.Done() })
	require.Equal(t, -1, c.Exit().Code)
	require.Contains(t, c.Exit().Reason, "its pod was deleted")
}

// slow is a job whose engine takes its time to signal it.
type slow struct {
	backend.Job
	free    chan struct{}
	removed atomic.Bool
}

func (j *slow) Signal(ctx context.Context, sig backend.Signal) error {
	err := j.Job.Signal(ctx, sig)
	<-j.free
	return err
}

func (j *slow) Remove(ctx context.Context) error {
	j.removed.Store(true)
	return j.Job.Remove(ctx)
}

// A job is not removed while it is being signalled.
func TestRemovalAfterSignals(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	j := &slow{free: make(chan struct{})}
	b.wrap = func(of backend.Job) backend.Job { j.Job = of; return j }
	c := started(t, n, "wait")
	require.NoError(t, c.Kill(""))
	require.NoError(t, c.Kill("not wanted"))
	soon(t, "the end", func() { <-c.reaped })
	require.Never(t, j.removed.Load, 200*time.Millisecond, time.Millisecond)
	close(j.free)
	awaited(t, c)
	require.True(t, j.removed.Load())
	require.Equal(t, "not wanted", c.Exit().Reason, "though it was killed before")
}

// mute is a job whose engine answers nothing until it is free.
type mute struct {
	backend.Job
	removing, free chan struct{} // removing receives an element for each removal
}

func (j mute) Signal(context.Context, backend.Signal) error {
	<-j.free
	return nil
}

func (j mute) Remove(ctx context.Context) error {
	j.removing <- struct{}{}
	<-j.free
	return j.Job.Remove(ctx)
}

// A start ends with its context, even if its job is not removed for long. Shutdown waits for that, and says so.
func TestStartWhoseJobIsNotRemoved(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.2") // where nothing listens
	n.has("0")                   // the job has it until it is removed
	removing, free := make(chan struct{}, 1), make(chan struct{})
	b.wrap = func(j backend.Job) backend.Job { return mute{j, removing, free} }
	_, err := n.Start(t.Context(), Spec{Name: "exit", Resources: meta.Resources{GPU: 1}})
	require.ErrorContains(t, err, "FIBER_HOST")
	<-removing
	require.Equal(t, "the removal of exit", n.Waits())
	require.Empty(t, n.gpus.Made().idle())
	ended := make(chan error, 1)
	go func() { ended <- n.Shutdown(context.Background()) }()
	<-n.starts.Done()
	require.Empty(t, ended)
	close(free)
	soon(t, "Shutdown", func() { require.NoError(t, <-ended) })
	require.Empty(t, n.Waits())
	require.Equal(t, []string{"0"}, n.gpus.Made().idle())
}

// unclosed is a backend whose Close does not return before it is free.
type unclosed struct {
	*networked
	free chan struct{}
}

func (b unclosed) Close(context.Context) error {
	<-b.free
	return nil
}

// Abandon waits for no engine, and what is left is named until then.
func TestAbandonWithoutTheEngine(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	free := make(chan struct{})
	n.Backend = unclosed{b, free}
	b.wrap = func(j backend.Job) backend.Job { return mute{j, make(chan struct{}, 1), free} }
	c := started(t, n, "wait")
	require.Equal(t, "wait", n.Waits())
	soon(t, "Abandon", n.Abandon)
	soon(t, "the process", func() { <-c.ended }) // it was told over its connection
	_, err := n.Start(t.Context(), Spec{Name: "exit"})
	require.ErrorIs(t, err, ErrShutdown)
	require.Contains(t, n.Waits(), "the removal of what is left on networked")
	close(free)
	awaited(t, c)
}
