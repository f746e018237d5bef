//go:build unix

package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// forgedRequest is a request with all that a process might try to say.
type forgedRequest struct {
	Do        deed
	Name, Job string
	GPUs      int
	Spec      forgedSpec
}

type forgedSpec struct {
	Name, Run, Parent, Executable, User, Bootstrap string
	Args, Env, Public, Devices                     []string
	Resources                                      meta.Resources
}

// forged sends a forged request, and returns the answer and the stream.
func forged(parent *Parent, r forgedRequest) (reply, net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.Name = "MainProcess"
	s, err := parent.session().Open()
	if err == nil {
		err = wire.Write(s, r)
	}
	if err != nil {
		return reply{}, nil, err
	}
	a, err := answered(ctx, s)
	return a, s, err
}

// forge does what a process in an attacker's hands may try. Its argument is a job of
// another process.
func forge(parent *Parent) error {
	other := string(parent.Value[0])
	for _, do := range []deed{"", "signal", "logs", "remove", "adopt"} { // there is no way to name a job
		if _, _, err := forged(parent, forgedRequest{Do: do, Job: other}); err == nil || !strings.Contains(err.Error(), "an unknown request") {
			return fmt.Errorf("%s of another's job: %v", do, err)
		}
	}
	for _, spec := range []forgedSpec{
		{Devices: []string{"0"}, Resources: meta.Resources{GPU: 1}},
		{Resources: meta.Resources{GPU: 1}},
		{Resources: meta.Resources{GPU: -1}},
		{Resources: meta.Resources{CPU: -1}},
		{Resources: meta.Resources{Memory: -1}},
	} {
		if _, _, err := forged(parent, forgedRequest{Do: doLaunch, Spec: spec}); err == nil {
			return fmt.Errorf("a job of %+v is started", spec)
		}
	}
	if _, _, err := forged(parent, forgedRequest{Do: doLend, GPUs: -1}); err == nil {
		return errors.New("-1 GPUs are lent")
	}
	a, s, err := forged(parent, forgedRequest{Do: doLaunch, Spec: forgedSpec{Name: "its\nown\x1b[2J", Run: "another", Parent: "MainProcess",
		Executable: "/bin/true", User: "root", Bootstrap: "nothing", Args: []string{"of", "its", "own"}, Env: os.Environ(),
		Public: []string{"LD_PRELOAD=/tmp/x.so"}}})
	if err != nil {
		return err
	}
	for !a.Ended {
		if a, err = answered(context.Background(), s); err != nil {
			return fmt.Errorf("its own job: %w", err)
		}
	}
	return nil
}

// Whatever a process says, the root runs only the run's program for it, as its own
// child, and lets it reach no other process's jobs.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	n.has("0", "1")
	up := make(chan struct{})
	_, err := n.Start(t.Context(), Spec{Name: "keep", Handle: func(wire.Kind, [][]byte) { close(up) }})
	require.NoError(t, err)
	<-up
	require.Len(t, b.jobs, 2)
	kept := b.jobs[1].ID()
	forger, err := n.Start(t.Context(), Spec{Name: "forge", Value: [][]byte{[]byte(kept)}})
	require.NoError(t, err)
	exit := awaited(t, forger)
	require.True(t, exit.Returned, "%v", exit)
	require.Nil(t, exit.Err)
	require.Len(t, b.specs, 4)
	spec := b.specs[3]
	require.Equal(t, []string{"its?own?[2J", n.Run, "forge/MainProcess", n.Config.Executable},
		[]string{spec.Name, spec.Run, spec.Parent, spec.Executable})
	require.Equal(t, os.Args[1:], spec.Args)
	require.Equal(t, []string{bootstrapKey + "=nothing"}, spec.Public)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = b.jobs[1].Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "another's job was ended")
}

// A process that signals a job before there is one is not served.
func TestASignalTooSoon(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	here, there := net.Pipe()
	n.Backend = slowBackend{b}
	over := make(chan struct{})
	go func() {
		defer close(over)
		n.runJob(there, &request{Do: doLaunch})
	}()
	require.NoError(t, wire.Write(here, backend.Kill))
	_, err := answered(t.Context(), here)
	require.ErrorIs(t, err, errGone)
	soon(t, "the launch", func() { <-over })
}

// However often a process signals its job, the engine is asked once at a time.
func TestManySignals(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	j := &busy{Life: lives.New(), free: make(chan struct{})}
	n.Backend = busyBackend{b, j}
	here, there := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		n.runJob(there, &request{Do: doLaunch})
	}()
	_, err := answered(t.Context(), here)
	require.NoError(t, err)
	for range 100 {
		for _, sig := range []backend.Signal{backend.Terminate, backend.Kill, 7} {
			require.NoError(t, wire.Write(here, sig))
		}
	}
	here.Close()
	soon(t, "its removal", func() { <-over })
	waitFor(t, func() bool { return j.asked.Load() >= 2 })
	require.EqualValues(t, 2, j.asked.Load())
	close(j.free)
}

// busyBackend has one job.
type busyBackend struct {
	*networked
	job *busy
}

func (b busyBackend) Launch(_ context.Context, spec backend.JobSpec) (backend.Job, error) {
	spec.Stdout.(io.Closer).Close()
	spec.Stderr.(io.Closer).Close()
	return b.job, nil
}

// busy is a job whose engine takes its time to signal it.
type busy struct {
	*lives.Life
	asked atomic.Int64
	free  chan struct{}
}

func (*busy) ID() string                   { return "busy" }
func (*busy) Host() string                 { return "" }
func (*busy) Remove(context.Context) error { return nil }
func (j *busy) Signal(context.Context, backend.Signal) error {
	j.asked.Add(1)
	<-j.free
	return nil
}

// slowBackend launches nothing.
type slowBackend struct{ *networked }

func (slowBackend) Launch(ctx context.Context, _ backend.JobSpec) (backend.Job, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A process is connected only to the run's listeners, not to anything else that its root can dial.
func TestForgedTunnels(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.1")
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	for _, listener := range []string{"", "tls:" + other.Addr().String(), other.Addr().String()} {
		for _, place := range []string{"", "/", "/1", "/../1", "1"} {
			here, there := net.Pipe()
			go n.serve(there, nil, func() {})
			require.NoError(t, wire.Write(here, request{Do: doConnect, To: place, Listener: listener}))
			_, err := answered(t.Context(), here)
			if strings.HasPrefix(place, "/") {
				require.ErrorIs(t, err, wire.ErrOver, "%q at %q: there is no such process", listener, place)
			} else {
				require.ErrorIs(t, err, errGone, "%q at %q", listener, place)
			}
		}
	}
}
