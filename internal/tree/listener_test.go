//go:build unix

package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

func TestMain(m *testing.M) {
	if Started() {
		if os.Getenv(deafKey) != "" {
			os.Exit(deaf())
		}
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child does what its name says.
func child() int {
	parent, err := Report(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if unreachable := (*UnreachableError)(nil); errors.As(err, &unreachable) {
			return unreachable.ExitCode()
		}
		return 1
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			if _, _, err := parent.Next(false); err != nil {
				return
			}
		}
	}()
	switch parent.Assign.Name {
	case "nest": // starts children of its own through the root, and reports how it went
		return say(parent, nest(parent))
	case "deep": // starts a "nest"
		return say(parent, deep(parent))
	case "leave": // leaves a child behind
		n, err := NewChild(parent, parent.Relay(), slog.New(slog.DiscardHandler))
		if err == nil {
			_, err = n.Start(context.Background(), Spec{Name: "wait"})
		}
		fmt.Println("left", err)
		os.Exit(3)
	case "keep": // keeps a child running
		n, err := NewChild(parent, parent.Relay(), slog.New(slog.DiscardHandler))
		if err == nil {
			_, err = n.Start(context.Background(), Spec{Name: "wait"})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		parent.Post(wire.MustPack(wire.KindReady, nil)...)
	case "forge":
		return say(parent, forge(parent))
	case "exit":
		return 7
	case "say":
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		return 5
	}
	<-gone
	return 1
}

// say tells the parent how it went.
func say(parent *Parent, err error) (code int) {
	done := wire.Done{}
	if err != nil {
		done.Err = &wire.Error{Message: err.Error()}
	}
	parent.Send(context.Background(), wire.MustPack(wire.KindDone, done)...)
	return 0
}

func deep(parent *Parent) error {
	n, err := NewChild(parent, parent.Relay(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer n.Shutdown(ctx)
	c, err := n.Start(ctx, Spec{Name: "nest"})
	if err != nil {
		return err
	}
	<-c.Done()
	if exit := c.Exit(); !exit.Returned || exit.Err != nil {
		return fmt.Errorf("the one below: %v, %v", exit, exit.Err)
	}
	return nil
}

func nest(parent *Parent) error {
	n, err := NewChild(parent, parent.Relay(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer n.Shutdown(ctx)
	c, err := n.Start(ctx, Spec{Name: "say"})
	if err != nil {
		return err
	}
	<-c.Done()
	exit := c.Exit()
	if exit.Code != 5 || len(exit.Stderr) != 1 || exit.Stderr[0] != "to stderr" {
		return fmt.Errorf("it ended with %v and %q", exit, exit.Stderr)
	}
	logs, err := c.Logs(ctx)
	if err != nil {
		return err
	}
	written, err := io.ReadAll(logs)
	for _, line := range []string{"to stdout\n", "to stderr\n"} {
		if !strings.Contains(string(written), line) {
			return fmt.Errorf("it has written %q: %v", written, err)
		}
	}
	c, err = n.Start(ctx, Spec{Name: "wait"})
	if err != nil {
		return err
	}
	if n.listener.listener == nil {
		return errors.New("it has not reported here")
	}
	if err := c.Kill("not wanted"); err != nil {
		return err
	}
	<-c.Done()
	if exit := c.Exit(); exit.Code != 137 || exit.Reason != "not wanted" {
		return fmt.Errorf("killed, it ended with %v", exit)
	}
	var launch *backend.LaunchError
	if _, err := n.Start(ctx, Spec{Name: "refused"}); !errors.As(err, &launch) || launch.Reason != "the engine's own words" || !launch.Permanent {
		return fmt.Errorf("a launch that fails: %v", err)
	}
	for n.underWay() > 0 {
		if time.Sleep(time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("%d streams are left", n.underWay())
		}
	}
	return nil
}

// networked is a local backend whose children dial. It records the jobs that it
// has launched.
type networked struct {
	*local.Backend
	host string
	wrap func(backend.Job) backend.Job // nil to leave jobs as they are

	mu    sync.Mutex
	jobs  []backend.Job
	specs []backend.JobSpec
}

func (b *networked) Name() string { return "networked" }

func (b *networked) Network(context.Context) (backend.Network, error) {
	return backend.Network{Host: b.host, Bind: "127.0.0.1"}, nil
}

func (b *networked) Launch(ctx context.Context, spec backend.JobSpec) (backend.Job, error) {
	if spec.Name == "refused" {
		return nil, &backend.LaunchError{Backend: b.Name(), Job: spec.Name, Reason: "the engine's own words", Permanent: true}
	}
	if spec.Name == "deaf" {
		spec.Env = append(spec.Env, deafKey+"=yes")
	}
	j, err := b.Backend.Launch(ctx, spec)
	if err == nil && b.wrap != nil {
		j = b.wrap(j)
	}
	if err == nil {
		b.mu.Lock()
		b.specs = append(b.specs, spec)
		b.jobs = append(b.jobs, j)
		b.mu.Unlock()
	}
	return j, err
}

// root makes a root whose children dial it at host.
func root(t *testing.T, host string) (*Node, *networked) {
	t.Helper()
	cfg, _, err := config.Load(config.Config{RuntimeDir: t.TempDir(), ForwardLogs: config.Off, StartTimeout: 10 * time.Minute,
		HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: time.Hour}, config.Sources{})
	require.NoError(t, err)
	b := &networked{Backend: local.New(), host: host}
	n, err := NewRoot(cfg, b, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Shutdown(context.Background())) })
	return n, b
}

func started(t *testing.T, n *Node, name string) *Child {
	t.Helper()
	c, err := n.Start(t.Context(), Spec{Name: name})
	require.NoError(t, err)
	return c
}

func awaited(t *testing.T, c *Child) Exit {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		require.FailNow(t, c.Name()+" does not end")
	}
	return c.Exit()
}

func TestChildrenDial(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.1")
	require.Equal(t, 7, awaited(t, started(t, n, "exit")).Code)
	require.Equal(t, []string{"to stderr"}, awaited(t, started(t, n, "say")).Stderr)
	c := started(t, n, "wait")
	require.NoError(t, c.Terminate())
	require.Equal(t, 143, awaited(t, c).Code)
	c = started(t, n, "wait")
	require.NoError(t, n.Shutdown(t.Context()))
	require.NotZero(t, awaited(t, c).Signal)
}

func TestProcessesBelowAreTheRootsJobs(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	var removed atomic.Int64
	b.wrap = func(j backend.Job) backend.Job { return counted{j, &removed} }
	exit := awaited(t, started(t, n, "nest"))
	require.True(t, exit.Returned, "%v", exit)
	require.Nil(t, exit.Err)
	require.Len(t, b.jobs, 3, "the root has launched them all")
	require.EqualValues(t, 3, removed.Load(), "the root keeps them")

	exit = awaited(t, started(t, n, "deep"))
	require.True(t, exit.Returned, "%v", exit)
	require.Nil(t, exit.Err)
	require.Len(t, b.jobs, 7)
	require.EqualValues(t, 7, removed.Load())
}

// counted counts the jobs that are removed.
type counted struct {
	backend.Job
	removed *atomic.Int64
}

func (j counted) Remove(ctx context.Context) error {
	j.removed.Add(1)
	return j.Job.Remove(ctx)
}

// When a process has ended, the root ends the processes that it had started.
func TestProcessesBelowEndWithTheirParent(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	var removed atomic.Int64
	b.wrap = func(j backend.Job) backend.Job { return counted{j, &removed} }
	exit := awaited(t, started(t, n, "leave"))
	require.Equal(t, 3, exit.Code)
	require.Len(t, b.jobs, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.jobs[1].Wait(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, removed.Load())
}

// A process that no start waits for is sent away, although it belongs to the run.
func TestStrangers(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	started(t, n, "wait")
	var boot wire.Bootstrap
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(b.specs[0].Public[0], bootstrapKey+"=")), &boot))
	endpoint := n.listener.listener.Endpoint()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, id := range []string{"", "1", boot.Process} { // the last one has reported already
		conn, err := transport.Dial(ctx, endpoint, n.Credentials, transport.Options{})
		require.NoError(t, err)
		require.NoError(t, conn.Send(ctx, wire.MustPack(wire.KindHello, wire.Hello{Process: id})...))
		_, err = conn.Recv()
		require.Error(t, err)
		conn.Close()
	}
	other, err := transport.NewCredentials()
	require.NoError(t, err)
	_, err = transport.Dial(ctx, endpoint, other, transport.Options{})
	require.ErrorIs(t, err, transport.ErrAuth)
}

// The end of a run does not wait for a process of it that says nothing. On a busy
// machine it may take as long, but not each time.
func TestShutdownWithASilentStranger(t *testing.T) {
	t.Parallel()
	for range 3 {
		n, _ := root(t, "127.0.0.1")
		started(t, n, "wait")
		silent, err := transport.Dial(t.Context(), n.listener.listener.Endpoint(), n.Credentials, transport.Options{})
		require.NoError(t, err)
		defer silent.Close()
		begun := time.Now()
		require.NoError(t, n.Shutdown(t.Context()))
		silent.Recv() // until the other end is closed
		if time.Since(begun) < helloTimeout/2 {
			return
		}
	}
	require.Fail(t, "it waits for its hello, or leaves the connection open")
}

// The error of a child that cannot dial says where it tried to, and what to do.
func TestParentThatCannotBeReached(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.2") // nothing listens there
	_, err := n.Start(t.Context(), Spec{Name: "exit"})
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.True(t, launch.Permanent)
	require.ErrorContains(t, err, "tls:127.0.0.2:")
	require.ErrorContains(t, err, "FIBER_HOST")
}

// The error of a start says why it failed, even if its ctx ends while the job is
// removed.
func TestStartThatIsGivenUpInItsRemoval(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.2")
	ctx, cancel := context.WithCancel(t.Context())
	b.wrap = func(j backend.Job) backend.Job { return givenUp{j, cancel} }
	_, err := n.Start(ctx, Spec{Name: "exit"})
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.True(t, launch.Permanent)
}

// givenUp is a job whose start is given up as it is removed.
type givenUp struct {
	backend.Job
	giveUp context.CancelFunc
}

func (j givenUp) Remove(ctx context.Context) error {
	j.giveUp()
	return j.Job.Remove(ctx)
}

// Strangers that hold connections open at this very address do not delay a start.
func TestStartsAmongStrangers(t *testing.T) {
	calm, _ := root(t, "127.0.0.1")
	attacked, _ := root(t, "127.0.0.1")
	started(t, attacked, "exit")
	address := attacked.listener.listener.Addr().String()
	stranger := func(say string) {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Write([]byte(say))
		require.NoError(t, err)
	}
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	for range min(8000, int(limit.Cur)/2) {
		stranger("")
	}
	var usual, among []time.Duration
	for range 9 {
		for range 256 {
			stranger("\x16")
		}
		for n, took := range map[*Node]*[]time.Duration{calm: &usual, attacked: &among} {
			begun := time.Now()
			started(t, n, "exit")
			*took = append(*took, time.Since(begun))
		}
	}
	slices.Sort(usual)
	slices.Sort(among)
	// Quartiles, since other tests take the processor now and then.
	require.Less(t, among[len(among)/4], 2*usual[len(usual)*3/4], "usual: %v, among strangers: %v", usual, among)
}

func TestListen(t *testing.T) {
	t.Parallel()
	n, _ := root(t, "127.0.0.1")
	l, err := n.Listen(t.Context())
	require.NoError(t, err)
	defer l.Close()
	require.True(t, strings.HasPrefix(l.Endpoint(), "tls:127.0.0.1:"), l.Endpoint())
	conn, err := n.Dial(t.Context(), l.Endpoint())
	require.NoError(t, err)
	conn.Close()

	n, err = NewRoot(n.Config, local.New(), n.Log)
	require.NoError(t, err)
	unix, err := n.Listen(t.Context())
	require.NoError(t, err)
	defer unix.Close()
	require.Equal(t, n.Directory(), filepath.Dir(filepath.Dir(strings.TrimPrefix(unix.Endpoint(), "unix:"))))
}

// asked is a backend that says where this process is reached when told is closed.
type asked struct {
	*networked
	asking chan struct{} // receives an element whenever it is asked
	told   chan struct{}
}

func (b asked) Network(ctx context.Context) (backend.Network, error) {
	b.asking <- struct{}{}
	select {
	case <-b.told:
		return b.networked.Network(ctx)
	case <-ctx.Done():
		return backend.Network{}, ctx.Err()
	}
}

// Whoever waits while another asks the backend heeds the own context, and asks when the other has given up.
func TestTheNetworkIsAskedForByOneWhoWaits(t *testing.T) {
	t.Parallel()
	n, b := root(t, "127.0.0.1")
	slow := asked{b, make(chan struct{}, 3), make(chan struct{})}
	n.Backend = slow
	listen := func() (giveUp context.CancelFunc, listened chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		listened = make(chan error, 1)
		go func() {
			l, err := n.Listen(ctx)
			if err == nil {
				l.Close()
			}
			listened <- err
		}()
		return cancel, listened
	}
	stopFirst, first := listen()
	<-slow.asking
	stopSecond, second := listen()
	stopThird, third := listen()
	defer stopThird()
	stopSecond()
	require.ErrorIs(t, <-second, context.Canceled)
	require.Empty(t, first, "it is still asking")
	stopFirst()
	require.ErrorIs(t, <-first, context.Canceled)
	<-slow.asking
	close(slow.told)
	require.NoError(t, <-third)
}
