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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/meta"
)

// patience is how long anything here may take.
const patience = time.Minute

// Run tests a backend, with a new one for each test.
func Run(t *testing.T, make func(t *testing.T) backend.Backend) {
	for name, test := range map[string]func(*testing.T, *bench){
		"Name":                   testName,
		"ExitCodes":              testExitCodes,
		"Signals":                testSignals,
		"OwnSignals":             testOwnSignals,
		"Orphans":                testOrphans,
		"SignalAfterTheEnd":      testSignalAfterTheEnd,
		"Remove":                 testRemove,
		"Wait":                   testWait,
		"Events":                 testEvents,
		"Output":                 testOutput,
		"Logs":                   testLogs,
		"LogsOfMuch":             testLogsOfMuch,
		"Follow":                 testFollow,
		"EnvironmentAndArgs":     testEnvironmentAndArgs,
		"Resources":              testResources,
		"MemoryLimit":            testMemoryLimit,
		"ForgedEnd":              testForgedEnd,
		"DialBack":               testDialBack,
		"LaunchFailure":          testLaunchFailure,
		"CancelledLaunch":        testCancelledLaunch,
		"CancellationAfterwards": testCancellationAfterwards,
		"FiftyAtOnce":            testFiftyAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			t.Cleanup(cancel)
			test(t, &bench{ctx, make(t)})
		})
	}
}

// bench is one test's backend.
type bench struct {
	ctx context.Context
	backend.Backend
}

// spec returns the job that does what says; see job.
func spec(what string) backend.JobSpec {
	return backend.JobSpec{Name: "Job", Env: append(os.Environ(), jobKey+"="+what)}
}

// launch starts a job that is removed when the test ends.
func (b *bench) launch(t testing.TB, s backend.JobSpec) backend.Job {
	t.Helper()
	j, err := b.Launch(b.ctx, s)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := j.Remove(ctx); err != nil {
			t.Errorf("Remove: %v", err)
		}
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
	logs, err := j.Logs(b.ctx, backend.LogOptions{Follow: true})
	require.NoError(t, err)
	defer logs.Close()
	line, err := bufio.NewReader(logs).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)
	return j
}

// says runs a job to its end and returns what it wrote.
func (b *bench) says(t testing.TB, s backend.JobSpec) string {
	t.Helper()
	j := b.launch(t, s)
	require.Equal(t, backend.ExitStatus{}, b.wait(t, j))
	return b.logs(t, j)
}

func (b *bench) logs(t testing.TB, j backend.Job) string {
	t.Helper()
	logs, err := j.Logs(b.ctx, backend.LogOptions{})
	require.NoError(t, err)
	defer logs.Close()
	text, err := io.ReadAll(logs)
	require.NoError(t, err)
	return string(text)
}

func testName(t *testing.T, b *bench) {
	require.NotEmpty(t, b.Name())
	one, two := b.up(t, "wait"), b.up(t, "wait")
	require.NotEmpty(t, one.ID())
	require.NotEqual(t, one.ID(), two.ID())
	require.NotEmpty(t, one.Host(), "it runs somewhere")
}

func testExitCodes(t *testing.T, b *bench) {
	for _, code := range []int{0, 1, 3, 127, 255} {
		require.Equal(t, backend.ExitStatus{Code: code}, b.wait(t, b.launch(t, spec(fmt.Sprint("exit ", code)))))
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		require.Equal(t, backend.ExitStatus{Code: 128 + int(sig), Signal: sig}, b.wait(t, b.launch(t, spec(fmt.Sprint("signal ", int(sig))))))
	}
}

func testSignals(t *testing.T, b *bench) {
	j := b.up(t, "heed 7")
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.Equal(t, backend.ExitStatus{Code: 7}, b.wait(t, j))

	j = b.up(t, "wait") // a process that does not handle the signal
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	status := b.wait(t, j)
	require.Equal(t, 143, status.Code)
	require.Equal(t, syscall.SIGTERM, status.Signal)
	require.False(t, status.OOMKilled)

	j = b.up(t, "ignore")
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	short, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	_, err := j.Wait(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "Terminate ended a job that ignores it")
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	status = b.wait(t, j)
	require.Equal(t, 137, status.Code)
	require.Equal(t, syscall.SIGKILL, status.Signal)
	require.False(t, status.OOMKilled)
}

// A process dies of a signal that it sends to itself, whatever its id.
func testOwnSignals(t *testing.T, b *bench) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		j := b.launch(t, spec(fmt.Sprint("own signal ", int(sig))))
		require.Equal(t, backend.ExitStatus{Code: 128 + int(sig), Signal: sig}, b.wait(t, j))
	}
}

// A process whose parent has ended is reaped when it ends.
func testOrphans(t *testing.T, b *bench) {
	require.Equal(t, "gone\n", b.says(t, spec("orphan")))
}

func testSignalAfterTheEnd(t *testing.T, b *bench) {
	j := b.launch(t, spec("exit 4"))
	b.wait(t, j)
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	require.Equal(t, 4, b.wait(t, j).Code)
}

func testRemove(t *testing.T, b *bench) {
	j := b.up(t, "ignore")
	require.NoError(t, j.Remove(b.ctx))
	require.Equal(t, 137, b.wait(t, j).Code, "Remove did not wait for the end")
	require.NoError(t, j.Remove(b.ctx))
}

func testWait(t *testing.T, b *bench) {
	j := b.up(t, "wait")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := j.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	var waiting sync.WaitGroup
	for range 5 {
		waiting.Go(func() {
			if status, err := j.Wait(b.ctx); err != nil || status.Code != 137 {
				t.Error(status, err)
			}
		})
	}
	require.NoError(t, j.Signal(b.ctx, backend.Kill))
	waiting.Wait()
}

func testEvents(t *testing.T, b *bench) {
	j := b.launch(t, spec("exit 5"))
	var kinds []backend.EventKind
	var last backend.Event
	for e := range j.Events() {
		if e.Kind != backend.Pending {
			kinds = append(kinds, e.Kind)
		}
		last = e
	}
	want := []backend.EventKind{backend.Started, backend.Ended}
	if _, ok := b.Backend.(backend.Cluster); ok {
		want = append([]backend.EventKind{backend.Placed}, want...)
	}
	require.Equal(t, want, kinds)
	require.Contains(t, last.Reason, "exit code 5")
}

// output is a writer that a job's pump and a test share.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func testOutput(t *testing.T, b *bench) {
	var stdout, stderr output
	s := spec("print")
	s.Stdout, s.Stderr = &stdout, &stderr
	b.wait(t, b.launch(t, s))
	require.Equal(t, "first to stdout\n", stdout.String(), "all output is there when Wait returns")
	require.Equal(t, "then to stderr\n", stderr.String())
}

func testLogs(t *testing.T, b *bench) {
	j := b.launch(t, spec("print"))
	b.wait(t, j)
	for range 2 {
		text := b.logs(t, j)
		require.Contains(t, text, "first to stdout\n")
		require.Contains(t, text, "then to stderr\n")
	}
	j = b.up(t, "wait")
	require.Equal(t, "up\n", b.logs(t, j), "without Follow it does not wait")
}

// A job that writes a lot is not slowed down, and the end of its output is kept.
func testLogsOfMuch(t *testing.T, b *bench) {
	j := b.launch(t, spec("chatter 4096"))
	b.wait(t, j)
	text := b.logs(t, j)
	require.True(t, strings.HasSuffix(text, "x\nthe end\n"))
	require.GreaterOrEqual(t, len(text), 64<<10)
}

func testFollow(t *testing.T, b *bench) {
	const n = 200
	j := b.launch(t, spec(fmt.Sprint("count ", n)))
	var readers sync.WaitGroup
	for range 3 {
		logs, err := j.Logs(b.ctx, backend.LogOptions{Follow: true})
		require.NoError(t, err)
		readers.Go(func() {
			defer logs.Close()
			lines := 0
			for s := bufio.NewScanner(logs); s.Scan(); lines++ {
				if s.Text() != fmt.Sprint("line ", lines) {
					t.Errorf("%q is line %d", s.Text(), lines)
					return
				}
			}
			if lines != n {
				t.Errorf("%d lines of %d", lines, n)
			}
		})
	}
	readers.Wait()

	j = b.up(t, "wait")
	ctx, cancel := context.WithCancel(b.ctx)
	logs, err := j.Logs(ctx, backend.LogOptions{Follow: true})
	require.NoError(t, err)
	defer logs.Close()
	time.AfterFunc(50*time.Millisecond, cancel)
	text, err := io.ReadAll(logs)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "up\n", string(text))
}

func testEnvironmentAndArgs(t *testing.T, b *bench) {
	s := spec("environment SOME_VALUE")
	s.Env = append(s.Env, "SOME_VALUE=with spaces = and signs")
	require.Equal(t, "SOME_VALUE=with spaces = and signs\n", b.says(t, s))
	s = spec("arguments")
	s.Args = []string{"-x", "", "two words", "'quoted'"}
	require.Equal(t, `["-x" "" "two words" "'quoted'"]`+"\n", b.says(t, s))
	require.Equal(t, "0 <nil>\n", b.says(t, spec("stdin")), "stdin is empty")
}

func testResources(t *testing.T, b *bench) {
	limited := func(what string) backend.JobSpec {
		s := spec("environment " + what)
		s.Env = append(s.Env, "GOMAXPROCS=64", "GOMEMLIMIT=64GiB")
		s.Resources = meta.Resources{CPU: 1.5, Memory: 400}
		return s
	}
	require.Equal(t, "GOMAXPROCS=2\n", b.says(t, limited("GOMAXPROCS")))
	require.Equal(t, "GOMEMLIMIT=368640KiB\n", b.says(t, limited("GOMEMLIMIT")), "90% of it")
}

// testForgedEnd shows that a job which writes what looks like an end goes on.
func testForgedEnd(t *testing.T, b *bench) {
	s := spec("forge 7")
	var out strings.Builder
	s.Stdout = &out
	j := b.launch(t, s)
	logs, err := j.Logs(b.ctx, backend.LogOptions{Follow: true})
	require.NoError(t, err)
	defer logs.Close()
	for lines := bufio.NewScanner(logs); lines.Text() != "up"; {
		require.True(t, lines.Scan(), "the job was taken for ended")
	}
	require.NoError(t, j.Signal(b.ctx, backend.Terminate))
	require.Equal(t, 7, b.wait(t, j).Code)
	require.Equal(t, 4, strings.Count(out.String(), "\n"), "%q", out.String())
}

func testMemoryLimit(t *testing.T, b *bench) {
	s := spec("hog 2000")
	s.Resources = meta.Resources{Memory: 150}
	status := b.wait(t, b.launch(t, s))
	require.True(t, status.OOMKilled, "%v", status)
	require.Equal(t, 137, status.Code)
	require.Contains(t, status.Reason, "150 MiB")
	s = spec("hog 10")
	s.Resources = meta.Resources{Memory: 150}
	require.Equal(t, backend.ExitStatus{}, b.wait(t, b.launch(t, s)))
}

// A job reaches this process, by the socket it inherits or at an address.
func testDialBack(t *testing.T, b *bench) {
	network, err := b.Network(b.ctx)
	require.NoError(t, err)
	if !network.Inherit {
		require.NotEmpty(t, network.Host)
		dialled(t, b, network)
		return
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	mine, theirs := os.NewFile(uintptr(fds[0]), "mine"), os.NewFile(uintptr(fds[1]), "theirs")
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	nc, err := net.FileConn(mine)
	require.NoError(t, err)
	require.NoError(t, mine.Close())
	defer nc.Close()
	s := spec("answer")
	s.Socket = theirs
	j := b.launch(t, s)
	require.NoError(t, theirs.Close(), "Launch does not close it")
	_, err = fmt.Fprintln(nc, "hello")
	require.NoError(t, err)
	answer, err := io.ReadAll(nc)
	require.NoError(t, err)
	require.Equal(t, "you said hello\n", string(answer))
	require.Equal(t, backend.ExitStatus{}, b.wait(t, j))
}

// dialled has a job dial this process at the network's address.
func dialled(t *testing.T, b *bench, network backend.Network) {
	l, err := net.Listen("tcp", net.JoinHostPort(network.Bind, "0"))
	require.NoError(t, err)
	defer l.Close()
	answer := make(chan string, 1)
	go func() {
		defer close(answer)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		fmt.Fprintln(nc, "hello")
		text, _ := io.ReadAll(nc)
		answer <- string(text)
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	j := b.launch(t, spec("dial "+net.JoinHostPort(network.Host, port)))
	require.Equal(t, backend.ExitStatus{}, b.wait(t, j), "%s", b.logs(t, j))
	require.Equal(t, "you said hello\n", <-answer)
}

func testLaunchFailure(t *testing.T, b *bench) {
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

func testCancelledLaunch(t *testing.T, b *bench) {
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
			require.True(t, errors.Is(err, context.DeadlineExceeded), err)
			require.ErrorAs(t, err, &launch)
			continue
		}
		require.NoError(t, j.Remove(b.ctx))
	}
}

func testCancellationAfterwards(t *testing.T, b *bench) {
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

func testFiftyAtOnce(t *testing.T, b *bench) {
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			j, err := b.Launch(b.ctx, spec(fmt.Sprint("exit ", i)))
			if err != nil {
				t.Error(err)
				return
			}
			if status, err := j.Wait(b.ctx); err != nil || status.Code != i {
				t.Errorf("job %d: %v, %v", i, status, err)
			}
			if err := j.Remove(b.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
