//go:build unix

// Package backendtest tests what every backend has to do. A backend's package
// calls Main in its TestMain, and Run in a test:
//
//	func TestBackend(t *testing.T) {
//		backendtest.Run(t, func(t *testing.T) backend.Backend { return local.New() })
//	}
package backendtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/meta"
)

// patience is how long anything here may take.
const patience = time.Minute

// Run tests a backend with each Test method of bench, and with a new backend for each, without those tests and jobs, if they are
// named, that are about what it hasn't.
func Run(t *testing.T, make func(t *testing.T) backend.Backend, without ...string) {
	for test := range reflect.TypeFor[*bench]().Methods() {
		name, isTest := strings.CutPrefix(test.Name, "Test")
		if !isTest || slices.Contains(without, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			t.Cleanup(cancel)
			b := &bench{ctx, make(t), without}
			test.Func.Call([]reflect.Value{reflect.ValueOf(b), reflect.ValueOf(t)})
		})
	}
}

// bench is one test's backend.
type bench struct {
	ctx context.Context
	backend.Backend
	without []string
}

// spec returns the job that does what says; see job.
func spec(what string, env ...string) backend.JobSpec {
	portable, _ := config.Portable(os.Environ(), []string{"*", config.Own})
	return backend.JobSpec{Name: "Job", Env: append(append(portable, jobKey+"="+what), env...)}
}

func beginsWith(prefix string) func(string) bool {
	return func(s string) bool { return strings.HasPrefix(s, prefix) }
}

// died is the status of a job that a signal has ended.
func died(sig syscall.Signal) backend.ExitStatus {
	return backend.ExitStatus{Code: 128 + int(sig), Signal: sig}
}

// launch starts a job that is removed when the test ends.
func (b *bench) launch(t testing.TB, s backend.JobSpec) backend.Job {
	t.Helper()
	j, err := b.Launch(b.ctx, s)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, j.Remove(ctx))
	})
	return j
}

func (b *bench) wait(t testing.TB, j backend.Job) backend.ExitStatus {
	t.Helper()
	status, err := j.Wait(b.ctx)
	require.NoError(t, err)
	return status
}

// up starts a job and waits until it says that it is up.
func (b *bench) up(t testing.TB, what string) backend.Job {
	t.Helper()
	j := b.launch(t, spec(what))
	logs, err := j.Logs(b.ctx, true)
	require.NoError(t, err)
	defer logs.Close()
	line, err := bufio.NewReader(logs).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)
	return j
}

func (b *bench) logs(t testing.TB, j backend.Job) string {
	t.Helper()
	logs, err := j.Logs(b.ctx, false)
	require.NoError(t, err)
	defer logs.Close()
	text, err := io.ReadAll(logs)
	require.NoError(t, err)
	return string(text)
}

func (b *bench) TestName(t *testing.T) {
	require.NotEmpty(t, b.Name())
	one, two := b.up(t, "wait"), b.up(t, "wait")
	require.NotEmpty(t, one.ID())
	require.NotEqual(t, one.ID(), two.ID())
	require.NotEmpty(t, one.Host(), "it runs somewhere")
}

// TestOutcomes runs jobs to their ends, all at a time.
func (b *bench) TestOutcomes(t *testing.T) {
	arguments := spec("arguments")
	arguments.Args = []string{"-x", "", "two words", "'quoted'"}
	limited := spec("environment GOMAXPROCS GOMEMLIMIT", "GOMAXPROCS=64", "GOMEMLIMIT=64GiB")
	limited.Resources = meta.Resources{CPU: 1.5, Memory: 400}
	modest := spec("hog 10")
	modest.Resources = meta.Resources{Memory: 150}
	type outcome struct {
		spec           backend.JobSpec
		status         backend.ExitStatus
		stdout, stderr string
	}
	outcomes := []outcome{
		{spec: spec("exit 0")},
		{spec: spec("exit 1"), status: backend.ExitStatus{Code: 1}},
		{spec: spec("exit 3"), status: backend.ExitStatus{Code: 3}},
		{spec: spec("exit 127"), status: backend.ExitStatus{Code: 127}},
		{spec: spec("exit 255"), status: backend.ExitStatus{Code: 255}},
		// A process dies of a signal that it sends to itself, whatever its id.
		{spec: spec("signal 15"), status: died(syscall.SIGTERM)},
		{spec: spec("signal 9"), status: died(syscall.SIGKILL)},
		// A process whose parent has ended is reaped when it ends.
		{spec: spec("orphan"), stdout: "gone\n"},
		{spec: spec("environment SOME_VALUE", "SOME_VALUE=with spaces = and signs"), stdout: "SOME_VALUE=with spaces = and signs\n"},
		{spec: arguments, stdout: `["-x" "" "two words" "'quoted'"]` + "\n"},
		{spec: spec("stdin"), stdout: "0 <nil>\n"},
		{spec: limited, stdout: "GOMAXPROCS=2\nGOMEMLIMIT=368640KiB\n"}, // 90% of it
		{spec: modest},
		{spec: spec("print"), stdout: "first to stdout\n", stderr: "then to stderr\n"},
	}
	outcomes = slices.DeleteFunc(outcomes, func(o outcome) bool {
		return slices.ContainsFunc(b.without, func(word string) bool { return slices.ContainsFunc(o.spec.Env, beginsWith(jobKey+"="+word)) })
	})
	jobs := make([]backend.Job, len(outcomes))
	outputs := make([]struct{ stdout, stderr strings.Builder }, len(outcomes))
	for i, o := range outcomes {
		o.spec.Stdout, o.spec.Stderr = &outputs[i].stdout, &outputs[i].stderr
		jobs[i] = b.launch(t, o.spec)
	}
	for i, o := range outcomes {
		require.Equal(t, o.status, b.wait(t, jobs[i]), o.spec.Env)
		require.Equal(t, o.stdout, outputs[i].stdout.String(), "all output is there when Wait returns")
		require.Equal(t, o.stderr, outputs[i].stderr.String())
		for range 2 {
			logs := b.logs(t, jobs[i])
			require.Contains(t, logs, o.stdout)
			require.Contains(t, logs, o.stderr)
			require.Len(t, logs, len(o.stdout)+len(o.stderr))
		}
	}
}

func (b *bench) TestSignals(t *testing.T) {
	j := b.up(t, "heed 7")
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.Equal(t, backend.ExitStatus{Code: 7}, b.wait(t, j))

	j = b.up(t, "wait") // a process that does not handle the signal
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.Equal(t, died(syscall.SIGTERM), b.wait(t, j))

	j = b.up(t, "ignore")
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	short, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := j.Wait(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "Terminate ended a job that ignores it")
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	require.Equal(t, died(syscall.SIGKILL), b.wait(t, j))
}

func (b *bench) TestSignalAfterTheEnd(t *testing.T) {
	j := b.launch(t, spec("exit 4"))
	b.wait(t, j)
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	require.Equal(t, 4, b.wait(t, j).Code)
}

func (b *bench) TestRemove(t *testing.T) {
	j := b.up(t, "ignore")
	require.NoError(t, j.Remove(b.ctx))
	require.Equal(t, 137, b.wait(t, j).Code, "Remove did not wait for the end")
	require.NoError(t, j.Remove(b.ctx))
}

func (b *bench) TestWait(t *testing.T) {
	j := b.up(t, "wait")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := j.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	var waiting sync.WaitGroup
	for range 5 {
		waiting.Go(func() {
			status, err := j.Wait(b.ctx)
			assert.NoError(t, err)
			assert.Equal(t, 137, status.Code)
		})
	}
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	waiting.Wait()
}

// A job is pending until it has started, which it has at once unless the backend has to place it. One that is placed may have
// started by the time that somebody looks.
func (b *bench) TestPending(t *testing.T) {
	j := b.launch(t, spec("wait"))
	waits := func() (reason string, pending bool) {
		if w, can := j.(backend.Waiter); can {
			reason, pending = w.Pending()
		}
		return reason, pending
	}
	_, pending := waits()
	if _, places := b.Backend.(backend.Placer); !places {
		require.False(t, pending)
	}
	require.Eventually(t, func() bool { _, pending := waits(); return !pending }, patience, time.Millisecond)
	require.NotEmpty(t, j.Host())
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	b.wait(t, j)
	reason, pending := waits()
	require.Empty(t, reason)
	require.False(t, pending)
}

func (b *bench) TestLogs(t *testing.T) {
	require.Equal(t, "up\n", b.logs(t, b.up(t, "wait")), "without follow it does not wait")
}

// A job that writes a lot is not slowed down, and the end of its output is kept.
func (b *bench) TestLogsOfMuch(t *testing.T) {
	j := b.launch(t, spec("chatter 4096"))
	b.wait(t, j)
	text := b.logs(t, j)
	require.True(t, strings.HasSuffix(text, "x\nthe end\n"))
	require.GreaterOrEqual(t, len(text), 64<<10)
}

func (b *bench) TestFollow(t *testing.T) {
	const n = 200
	lines := ""
	for i := range n {
		lines += fmt.Sprintf("line %d\n", i)
	}
	j := b.launch(t, spec(fmt.Sprint("count ", n)))
	var readers sync.WaitGroup
	for range 3 {
		logs, err := j.Logs(b.ctx, true)
		require.NoError(t, err)
		readers.Go(func() {
			defer logs.Close()
			text, err := io.ReadAll(logs)
			assert.NoError(t, err)
			assert.Equal(t, lines, string(text))
		})
	}
	readers.Wait()

	j = b.up(t, "wait")
	ctx, cancel := context.WithCancel(b.ctx)
	logs, err := j.Logs(ctx, true)
	require.NoError(t, err)
	defer logs.Close()
	time.AfterFunc(50*time.Millisecond, cancel)
	text, err := io.ReadAll(logs)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "up\n", string(text))
}

// TestForgedEnd shows that a job which writes what looks like an end goes on.
func (b *bench) TestForgedEnd(t *testing.T) {
	s := spec("forge 7")
	var out strings.Builder
	s.Stdout = &out
	j := b.launch(t, s)
	logs, err := j.Logs(b.ctx, true)
	require.NoError(t, err)
	defer logs.Close()
	for lines := bufio.NewScanner(logs); lines.Text() != "up"; {
		require.True(t, lines.Scan(), "the job was taken for ended")
	}
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.Equal(t, 7, b.wait(t, j).Code)
	require.Equal(t, 4, strings.Count(out.String(), "\n"), "%q", out.String())
}

func (b *bench) TestMemoryLimit(t *testing.T) {
	s := spec("hog 2000")
	s.Resources = meta.Resources{Memory: 150}
	status := b.wait(t, b.launch(t, s))
	require.True(t, status.OOMKilled, "%v", status)
	require.Equal(t, 137, status.Code)
	require.Contains(t, status.Reason, "150 MiB")
}

// A job reaches this process, by the socket it inherits or at an address.
func (b *bench) TestDialBack(t *testing.T) {
	network, err := b.Network(b.ctx)
	require.NoError(t, err)
	kind, at := "tcp", net.JoinHostPort(network.Bind, "0")
	if network.Inherit {
		kind, at = "unix", filepath.Join(t.TempDir(), "socket")
	}
	l, err := net.Listen(kind, at)
	require.NoError(t, err)
	defer l.Close()
	defer context.AfterFunc(b.ctx, func() { l.Close() })()
	var j backend.Job
	if network.Inherit {
		theirs, err := net.Dial(kind, at)
		require.NoError(t, err)
		s := spec("answer")
		s.Socket, err = theirs.(*net.UnixConn).File() // another descriptor of the same socket
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		j = b.launch(t, s)
		require.NoError(t, s.Socket.Close(), "Launch does not close it")
	} else {
		require.NotEmpty(t, network.Host)
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		to := net.JoinHostPort(network.Host, port)
		if f, forwards := b.Backend.(backend.Forwarder); forwards {
			to, err = f.Forward(b.ctx, l.Addr())
			require.NoError(t, err)
		}
		j = b.launch(t, spec("dial "+to))
	}
	nc, err := l.Accept()
	require.NoError(t, err, "%s", b.logs(t, j))
	defer nc.Close()
	_, err = fmt.Fprintln(nc, "hello")
	require.NoError(t, err)
	answer, err := io.ReadAll(nc)
	require.NoError(t, err)
	require.Equal(t, "you said hello\n", string(answer))
	require.Equal(t, backend.ExitStatus{}, b.wait(t, j))
}

func (b *bench) TestLaunchFailure(t *testing.T) {
	s := spec("exit 0")
	s.Executable = "/no/such/program"
	j, err := b.Launch(b.ctx, s)
	if err == nil { // the failure shows only when the job is about to run
		b.wait(t, j)
		t.Fatal("a job without a program was launched")
	}
	require.Nil(t, j)
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.Equal(t, b.Name(), launch.Backend)
	require.Equal(t, "Job", launch.Job)
	require.ErrorContains(t, err, "/no/such/program")
	require.ErrorContains(t, err, "no such file")
}

func (b *bench) TestCancelledLaunch(t *testing.T) {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	j, err := b.Launch(ctx, spec("wait"))
	require.ErrorIs(t, err, context.Canceled)
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.Nil(t, j)
	// Whenever the cancellation comes, either the job was launched or nothing is left of it.
	for i := range 20 {
		ctx, cancel := context.WithTimeout(b.ctx, time.Duration(i)*100*time.Microsecond)
		j, err := b.Launch(ctx, spec("wait"))
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorAs(t, err, &launch)
			continue
		}
		require.NoError(t, j.Remove(b.ctx))
	}
}

func (b *bench) TestCancellationAfterwards(t *testing.T) {
	ctx, cancel := context.WithCancel(b.ctx)
	j, err := b.Launch(ctx, spec("heed 6"))
	require.NoError(t, err)
	t.Cleanup(func() { j.Remove(context.Background()) })
	cancel()
	short, stop := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer stop()
	_, err = j.Wait(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the ctx of Launch ended the job")
}

func (b *bench) TestFiftyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			j, err := b.Launch(b.ctx, spec(fmt.Sprint("exit ", i)))
			if !assert.NoError(t, err) {
				return
			}
			status, err := j.Wait(b.ctx)
			assert.NoError(t, err)
			assert.Equal(t, i, status.Code)
			assert.NoError(t, j.Remove(b.ctx))
		})
	}
	all.Wait()
}
