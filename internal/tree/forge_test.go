//go:build unix

package tree

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// forgedRequest is a request with all that a process might try to say.
type forgedRequest struct {
	Do              deed
	From, Name, Job string
	GPUs            int
	Spec            forgedSpec
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
	for _, from := range []string{"", "/1", "1", "/../1", "/"} {
		for _, do := range []deed{doSignal, doLogs, "", "adopt"} {
			if _, _, err := forged(parent, forgedRequest{Do: do, From: from, Job: other}); err == nil || !strings.Contains(err.Error(), "there is no job") {
				return fmt.Errorf("%s of another's job, from %q: %v", do, from, err)
			}
		}
		if _, _, err := forged(parent, forgedRequest{Do: doRemove, From: from, Job: other}); err != nil {
			return err
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
	if _, _, err := forged(parent, forgedRequest{Do: doSignal, Job: a.Job, From: "/9"}); err == nil {
		return errors.New("its own job answers to another place")
	}
	for a.Event.Kind != "" || a.Job != "" {
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
	n.gpus = newGPUs([]string{"0", "1"})
	up := make(chan struct{})
	_, err := n.Start(t.Context(), Spec{Name: "keep", Handle: func(wire.Kind, [][]byte) { close(up) }})
	require.NoError(t, err)
	<-up
	require.Len(t, b.jobs, 2)
	kept := b.jobs[1].ID()
	logs, there := net.Pipe()
	go n.serveJob(there, &request{Do: doLogs, From: "/1", Job: kept, Follow: true})
	_, err = answered(t.Context(), logs)
	require.NoError(t, err)

	forger, err := n.Start(t.Context(), Spec{Name: "forge", Value: [][]byte{[]byte(kept)}})
	require.NoError(t, err)
	exit := awaited(t, forger)
	require.True(t, exit.Returned, "%v", exit)
	require.Nil(t, exit.Err)
	require.Len(t, b.specs, 4)
	spec := b.specs[3]
	require.Equal(t, []string{"its?own?[2J", n.Run, "forge", n.Config.Executable},
		[]string{spec.Name, spec.Run, spec.Parent, spec.Executable})
	require.Equal(t, os.Args[1:], spec.Args)
	require.Equal(t, []string{bootstrapKey + "=nothing"}, spec.Public)

	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	require.Contains(t, n.jobs.byID, kept, "another's job was removed")
	logs.SetReadDeadline(time.Now())
	_, err = logs.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "another's reading was ended")
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
			go n.serve(there, nil)
			require.NoError(t, wire.Write(here, request{Do: doConnect, To: place, Listener: listener}))
			_, err := answered(t.Context(), here)
			require.ErrorIs(t, err, errGone, "%q at %q", listener, place)
		}
	}
}

// Whatever place a process claims counts from its own place.
func TestStamp(t *testing.T) {
	t.Parallel()
	c := &Child{node: &Node{Place: "/2"}, place: "/2/1", spec: Spec{Name: "child"}}
	for _, test := range []struct{ from, name, wantFrom, wantName string }{
		{"", "", "/1", "child"},
		{"", "MainProcess", "/1", "child"},
		{"0", "MainProcess", "/1", "child"}, // not /10
		{"/3", "grandchild", "/1/3", "grandchild"},
	} {
		r := request{From: test.from, Name: test.name}
		c.stamp(&r)
		require.Equal(t, request{From: test.wantFrom, Name: test.wantName}, r)
	}
}
