//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	longTasks = 1300 // 100 ms each: once a minute an API server sends its idle watchers a bookmark
	longTurn  = 600  // by then a watcher has received one
)

// long is a program that works for more than two minutes. At the end a worker is killed, and replaced.
var long = fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fiber-go/fiber"
)

var slow = fiber.Register("slow", func(_ context.Context, i int) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return 2 * i, nil
})

var die = fiber.Register("die", func(context.Context, int) (int, error) {
	os.Exit(3)
	return 0, nil
})

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	for i := range %d {
		n, err := fiber.Apply(ctx, pool, slow, i)
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
	_, err = fiber.Apply(ctx, pool, die, 0)
	fmt.Println("worker lost:", err != nil)
	n, err := fiber.Apply(ctx, pool, slow, 7)
	fmt.Println("and another one:", n)
	if err == nil {
		err = fmt.Errorf("the end")
	}
	return err
}
`, longTasks)

// A run is followed for minutes. An API server that is killed and comes back causes no more than a pause.
func TestFollowingForMinutes(t *testing.T) {
	c := newAlone(t)
	pid := apiServer(t)
	c.as(c.token("fiber")) // what deploy/rbac.yaml allows, and no more
	file := filepath.Join(c.dir, "long.go")
	write(t, file, long)
	var want strings.Builder
	for i := range longTasks {
		fmt.Fprintln(&want, 2*i)
	}
	want.WriteString("worker lost: true\nand another one: 14\n")

	begun := time.Now()
	c.dir = "../.."
	run := c.follow("run", "-a", file)
	run.says("\n2\n")
	logs := c.follow("logs", "-f", "long")
	run.says(fmt.Sprintf("\n%d\n", 2*longTurn))
	restart(t, pid)
	assert.Equal(t, 1, run.code())
	assert.Greater(t, time.Since(begun), 2*time.Minute)
	assert.Zero(t, logs.code())
	for _, f := range []*following{run, logs} {
		assert.Equal(t, want.String(), f.stdout())
		assert.Contains(t, f.stderr(), "the end\n")
		assert.NotContains(t, f.stderr(), "panic")
		assert.NotRegexp(t, `(?m)^[IWEF]\d{4} `, f.stderr(), "client-go's own log")
	}
	c.empty()
}

func TestSignalsReachTheCluster(t *testing.T) {
	c := newOnCluster(t)
	for _, test := range []struct {
		program string
		signal  syscall.Signal
		code    int
	}{{"wait", syscall.SIGINT, 5}, {"sleep", syscall.SIGINT, 130}, {"sleep", syscall.SIGTERM, 143}} {
		run := c.follow("run", "-a", "main.go", test.program)
		run.says("out") // the command knows that the program runs: otherwise it would remove the pod at once
		require.NoError(t, run.cmd.Process.Signal(test.signal))
		assert.Equal(t, test.code, run.code(), "%s %v: %s%s", test.program, test.signal, run.stdout(), run.stderr())
		c.empty()
	}
}

// following is a running command.
type following struct {
	*onCluster
	cmd      *exec.Cmd
	out, err string // paths of files
}

func (c *onCluster) follow(args ...string) *following {
	c.Helper()
	dir := c.TempDir()
	f := &following{c, exec.Command(c.bin, args...), filepath.Join(dir, "out"), filepath.Join(dir, "err")}
	f.cmd.Dir, f.cmd.Env = c.dir, c.env
	for name, to := range map[string]*io.Writer{f.out: &f.cmd.Stdout, f.err: &f.cmd.Stderr} {
		file, err := os.Create(name)
		require.NoError(c, err)
		defer file.Close()
		*to = file
	}
	require.NoError(c, f.cmd.Start())
	return f
}

func (f *following) stdout() string { return f.read(f.out) }
func (f *following) stderr() string { return f.read(f.err) }

func (f *following) read(file string) string {
	text, err := os.ReadFile(file)
	require.NoError(f, err)
	return string(text)
}

// says waits for a piece of the output.
func (f *following) says(text string) {
	f.Helper()
	require.Eventually(f, func() bool { return strings.Contains(f.stdout(), text) }, 5*time.Minute, 100*time.Millisecond)
}

func (f *following) code() int {
	_ = f.cmd.Wait() // the exit code says it
	return f.cmd.ProcessState.ExitCode()
}

// apiServer returns the process id of the cluster's API server, if it is one of test/cluster.
func apiServer(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("CLUSTER_STATE"), "pid/kube-apiserver"))
	if err != nil {
		t.Skip("the cluster's API server is not one of test/cluster")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

// restart kills the API server and starts it again.
func restart(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return len(command) == 0
	}, time.Minute, 10*time.Millisecond)
	out, err := exec.Command("../../test/cluster/up.sh").CombinedOutput()
	require.NoError(t, err, string(out))
}

// Users who may look at pods do not see a program's variables; the permissions of deploy/rbac.yaml are enough for that.
func TestTheEnvironmentIsInNoPodSpec(t *testing.T) {
	c := newOnCluster(t)
	c.as(c.token("fiber"))
	c.env = append(c.env, "A=very-secret $(B)", "FIBER_ENV=A")
	run := c.follow("run", "-a", "main.go", "wait")
	run.says("out [wait] very-secret $(B)\n")
	assert.NotContains(t, c.kubectl("get", "pods", "-n", c.namespace, "-o", "yaml"), "very-secret")
	assert.Contains(t, run.stderr(), "no permission to create pods/portforward", "this account has no more than a root needs")
	secrets := func() string {
		return c.kubectl("get", "secrets", "-n", c.namespace, "-l", "fiber.program=main", "-o", "name")
	}
	assert.Equal(t, 1, strings.Count(secrets(), "secret/fiber-main-"))
	require.NoError(t, run.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 5, run.code())
	c.empty()
	require.Eventually(t, func() bool { return secrets() == "" }, 5*time.Minute, 200*time.Millisecond, "it goes with the pod")
}
