//go:build unix

package tree

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
)

// idle lists the GPUs that are not lent.
// has gives the root GPUs.
func (n *Node) has(devices ...string) {
	n.gpus.Make(context.Background(), func() (*gpus, error) { return newGPUs(devices), nil })
}

func (g *gpus) idle() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(slices.Values(g.free))
}

// GPUs are requested along the tree. They come back when they are given back, or when
// the requester stops waiting.
func TestGPUsAlongTheTree(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"})
	back := func() { t.Helper(); waitFor(t, func() bool { return slices.Equal(m[0].gpus.Made().idle(), devices) }) }

	lent, release, err := m[3].acquireGPUs(t.Context(), 2)
	require.NoError(t, err)
	require.ElementsMatch(t, devices, lent)
	for _, n := range []*Node{m[0].Node, m[2].Node} { // each has noted what it has lent
		c := n.Children()[len(n.Children())-1]
		require.True(t, c.holds(devices))
		require.False(t, c.holds([]string{"0", "0"}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, _, err = m[1].acquireGPUs(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
	release()
	back()

	_, _, err = m[3].acquireGPUs(t.Context(), 3)
	require.ErrorContains(t, err, "more GPUs than the machine has: meta.GPU(3), and this machine has 2")
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.True(t, launch.Permanent)

	for range 200 { // so that some answers cross with the end of the wait
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Millisecond))
		if _, release, err := m[3].acquireGPUs(ctx, 2); err == nil {
			release()
		}
		cancel()
	}
	back()
	waitFor(t, func() bool { return m[0].underWay()+m[2].underWay()+m[3].underWay() == 0 })
}

// endlessJob writes without an end, until it is removed.
type endlessJob struct {
	waitingJob
	closed chan struct{}
}

func (endlessJob) Read(p []byte) (int, error)                          { return len(p), nil }
func (j endlessJob) Close() error                                      { close(j.closed); return nil }
func (endlessJob) Host() string                                        { return "good" }
func (j endlessJob) Logs(context.Context, bool) (io.ReadCloser, error) { return j, nil }

// The output of a job is not sent any more when its stream closes, even if nothing
// of it is read.
func TestALogThatIsNotRead(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"})
	j := endlessJob{waitingJob{removed: make(chan struct{})}, make(chan struct{})}
	m[0].hosts.mu.Lock() // which a launch takes, too
	m[0].Backend = waitingBackend{job: j}
	m[0].hosts.mu.Unlock()
	_, s, err := m[3].Parent.ask(t.Context(), &request{Do: doLaunch})
	require.NoError(t, err)
	time.Sleep(100 * time.Millisecond) // its window fills
	s.Close()
	soon(t, "the end of the reading", func() { <-j.closed })
	soon(t, "its removal", func() { <-j.removed })
	waitFor(t, func() bool { return m[0].underWay()+m[2].underWay()+m[3].underWay() == 0 })
}

// waitingJob is a job that has a machine and does not start.
type waitingJob struct {
	backend.Job
	removed chan struct{}
}

func (waitingJob) ID() string              { return "waiting" }
func (waitingJob) Host() string            { return "bad" }
func (waitingJob) Pending() (string, bool) { return "", true }
func (waitingJob) Logs(context.Context, bool) (io.ReadCloser, error) {
	return nil, errors.New("none")
}
func (waitingJob) Wait(ctx context.Context) (backend.ExitStatus, error) {
	<-ctx.Done()
	return backend.ExitStatus{}, ctx.Err()
}
func (j waitingJob) Remove(context.Context) error { close(j.removed); return nil }

type waitingBackend struct {
	backend.Backend
	job backend.Job
}

func (b waitingBackend) Name() string { return "waiting" }
func (b waitingBackend) Launch(context.Context, backend.JobSpec) (backend.Job, error) {
	return b.job, nil
}

// A start of a process below the root, like the root's own, is given up when its machine comes to be avoided.
func TestALowerStartOnAMachineThatFails(t *testing.T) {
	t.Parallel()
	m := tree(t, [4]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"})
	j := waitingJob{removed: make(chan struct{})}
	m[0].hosts.mu.Lock() // which a launch takes, too
	m[0].Backend, m[0].avoids = waitingBackend{job: j}, true
	m[0].hosts.mu.Unlock()
	launched, s, err := m[3].Parent.ask(t.Context(), &request{Do: doLaunch})
	require.NoError(t, err)
	require.Equal(t, "waiting", launched.Job)
	for range maxStrikes {
		m[0].strike("bad")
	}
	for err == nil { // first it tells of its progress
		_, err = answered(t.Context(), s)
	}
	require.ErrorIs(t, err, errAvoided)
	soon(t, "its removal", func() { <-j.removed })
}
