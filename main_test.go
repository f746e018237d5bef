//go:build unix

package fiber_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/object"
)

// testGrace is the suite's cancel_grace: functions that ignore their context
// are ended soon. Tests of those that heed it need more, or a busy machine ends
// them as well: see alone.
const testGrace = 500 * time.Millisecond

// testSilence is the suite's heartbeat_timeout, longer than any test waits. A
// busy machine loses no process that way, and what a test learns of a lost one
// it learns from its end.
const testSilence = time.Hour

// testLapse is how long an object of the suite lives that nobody holds.
const testLapse = 5 * time.Second

// dirKey names the runtime directory to the children, which need no other.
const dirKey = "FIBER_TEST_RUNTIME_DIR"

// prefixKey is log_prefix in the environment.
const prefixKey = "FIBER_LOG_PREFIX"

// TestMain runs the tests in a process that Fiber starts again as its
// children, and fails the run for whatever they leave behind.
func TestMain(m *testing.M) {
	object.Grace = testLapse
	if name := os.Getenv(programKey); name != "" {
		runProgram(name)
	}
	dir := os.Getenv(dirKey)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "test-of-fiber"); err != nil {
			panic(err)
		}
		os.Setenv(dirKey, dir)
		os.Setenv(prefixKey, "off") // most tests look at what processes write, not at who has
		if b := os.Getenv(backendKey); b != "" && b != "local" {
			elsewhere(b, dir)
		}
	}
	config := fiber.Config{RuntimeDir: dir}
	if os.Getenv(aloneKey) == "" { // otherwise the test says itself what it needs
		config.CancelGrace, config.HeartbeatTimeout = testGrace, testSilence
	}
	if err := fiber.Init(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	before := openFiles()
	code := m.Run()
	if err := fiber.Shutdown(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	for _, leak := range leaks(dir, before) {
		fmt.Fprintln(os.Stderr, "leak:", leak)
		code = max(code, 1)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// leaks lists what is left after Shutdown.
func leaks(runtimeDir string, filesBefore []string) (found []string) {
	if err := goleak.Find(); err != nil {
		found = append(found, err.Error())
	}
	for _, pid := range childrenOf(os.Getpid()) {
		found = append(found, fmt.Sprintf("process %d: %s", pid, commandOf(pid)))
	}
	entries, _ := os.ReadDir(runtimeDir)
	for _, e := range entries {
		if e.Name() != "files" {
			found = append(found, "in the runtime directory: "+e.Name())
		}
	}
	for _, f := range openFiles() {
		if !slices.Contains(filesBefore, f) {
			found = append(found, "open file "+f)
		}
	}
	return found
}

// openFiles lists this process's open files, without those that the Go
// runtime opens for itself.
func openFiles() (files []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/proc/") ||
			strings.HasPrefix(target, "/sys/fs/cgroup") {
			continue
		}
		files = append(files, e.Name()+" "+target)
	}
	return files
}

// stat is a line of /proc/PID/stat, behind the command's name.
func stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// running says whether a process is there, and is not only waited for.
func running(pid int) bool {
	f := stat(pid)
	return len(f) > 1 && f[0] != "Z" && f[0] != "X"
}

func pids() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func childrenOf(parent int) (children []int) {
	for _, pid := range pids() {
		if f := stat(pid); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

func commandOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(b), "\x00", " ")
}

// patience is how long a test waits for something that should take no time. It
// ends what hangs, on a machine that is busy with other things, too.
const patience = 3 * time.Minute

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func soon(t testing.TB) context.Context { t.Helper(); return within(t, patience) }

// eventually polls until cond is true, and leaves what cond looks at the
// processor for longer than looking takes.
func eventually(t testing.TB, d time.Duration, cond func() bool, what string, args ...any) {
	t.Helper()
	for begun := time.Now(); ; {
		look := time.Now()
		if cond() {
			return
		}
		if time.Since(begun) > d {
			require.FailNow(t, "not within "+d.String(), append([]any{what}, args...)...)
		}
		time.Sleep(max(5*time.Millisecond, 2*time.Since(look)))
	}
}

// newPool makes a pool that is closed when the test ends.
func newPool(t testing.TB, workers int, opts ...fiber.PoolOption) *fiber.Pool {
	t.Helper()
	pool, err := fiber.NewPool(workers, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { closeSoon(t, pool) })
	return pool
}

func closeSoon(t testing.TB, pool *fiber.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() { defer close(closed); pool.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Errorf("Close hangs: %+v", pool.Stats())
		pool.Terminate()
		<-closed
	}
}

// warm waits until all workers of a pool are ready.
func warm(t testing.TB, pool *fiber.Pool) {
	t.Helper()
	require.NoError(t, pool.WaitUntilWorkersUp(soon(t)))
}

func distinct[T comparable](values []T) int {
	seen := map[T]bool{}
	for _, v := range values {
		seen[v] = true
	}
	return len(seen)
}

func numbers(n int) []int {
	ns := make([]int, n)
	for i := range ns {
		ns[i] = i
	}
	return ns
}

// The functions that the tests run in other processes.

type none struct{}

var (
	square = fiber.Register("square", func(_ context.Context, x int) (int, error) { return x * x, nil })

	getpid = fiber.Register("getpid", func(context.Context, none) (int, error) { return self(), nil })

	// nap sleeps without looking at its context and gives its process's id.
	nap = fiber.Register("nap", func(_ context.Context, d time.Duration) (int, error) {
		time.Sleep(d)
		return self(), nil
	})

	// rest sleeps until its context ends.
	rest = fiber.Register("rest", func(ctx context.Context, d time.Duration) (int, error) {
		select {
		case <-time.After(d):
			return self(), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})

	// mark appends a line to a file.
	mark = fiber.Register("mark", func(_ context.Context, m marking) (int, error) {
		return self(), m.append()
	})

	exit = fiber.Register("exit", func(_ context.Context, code int) (none, error) {
		os.Exit(code)
		return none{}, nil
	})

	die = fiber.Register("die", func(_ context.Context, s int) (none, error) {
		fmt.Fprintln(os.Stderr, "last words")
		syscall.Kill(os.Getpid(), syscall.Signal(s))
		select {}
	})
)

// marking is a line for a file.
type marking struct {
	File string
	Line string
	Nap  time.Duration // after it is written
	Gate string        // a file that is waited for when it is written, "" for none
}

func (m marking) append() error {
	f, err := os.OpenFile(m.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, m.Line)
	time.Sleep(m.Nap)
	return errors.Join(err, f.Close(), await(context.Background(), m.Gate))
}

// await waits for a file, which a test has its processes go on by.
func await(ctx context.Context, gate string) error {
	for gate != "" {
		if _, err := os.Stat(gate); err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func open(t testing.TB, gate string) {
	t.Helper()
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
}

func lines(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	return strings.Fields(string(b))
}

func tempFile(t testing.TB) string { return filepath.Join(openDir(t), "file") }
