//go:build unix

package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/backendtest"
	"github.com/fiber-go/fiber/backend/local"
	"github.com/fiber-go/fiber/internal/warden"
	"github.com/fiber-go/fiber/meta"
)

const (
	rootKey = "LOCAL_TEST_ROOT" // makes this binary a root, with a job of its own
	jobKey  = "BACKENDTEST_JOB"
)

func TestMain(m *testing.M) {
	if what, ok := os.LookupEnv(rootKey); ok {
		os.Unsetenv(rootKey)
		root(what)
	}
	backendtest.Main()
	before := openFiles()
	code := m.Run()
	warden.Close()
	if err := leaks(before); err != nil {
		fmt.Fprintln(os.Stderr, "leak:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// leaks returns an error that names what the tests have left behind.
func leaks(before []string) error {
	if err := goleak.Find(goleak.IgnoreTopFunction("os/signal.signal_recv")); err != nil {
		return err
	}
	for _, pid := range children(os.Getpid()) {
		return fmt.Errorf("process %d", pid)
	}
	for _, f := range openFiles() {
		if !slices.Contains(before, f) {
			return fmt.Errorf("open file %s", f)
		}
	}
	return nil
}

func openFiles() (files []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") && !strings.HasPrefix(target, "/sys/fs/cgroup") {
			files = append(files, e.Name()+" "+target)
		}
	}
	return files
}

// children returns the processes that parent has started and not waited for.
func children(parent int) (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:])); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			all = append(all, pid)
		}
	}
	return all
}

func TestBackend(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(*testing.T) backend.Backend { return local.New() })
}

func launch(t *testing.T, what string, change func(*backend.JobSpec)) backend.Job {
	t.Helper()
	s := backend.JobSpec{Name: "Job", Env: append(os.Environ(), jobKey+"="+what)}
	if change != nil {
		change(&s)
	}
	j, err := local.New().Launch(context.Background(), s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Remove(context.Background())) })
	return j
}

func logs(t *testing.T, j backend.Job) string {
	t.Helper()
	r, err := j.Logs(context.Background(), true)
	require.NoError(t, err)
	b := make([]byte, 1000)
	n, _ := r.Read(b)
	require.NoError(t, r.Close())
	return string(b[:n])
}

func TestDevices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		devices []string
		want    string
	}{
		{nil, "of the environment"},
		{[]string{}, ""},
		{[]string{"3"}, "3"},
		{[]string{"0", "GPU-8f"}, "0,GPU-8f"},
	} {
		j := launch(t, "environment CUDA_VISIBLE_DEVICES", func(s *backend.JobSpec) {
			s.Env = append(s.Env, "CUDA_VISIBLE_DEVICES=of the environment")
			s.Devices = test.devices
		})
		require.Equal(t, "CUDA_VISIBLE_DEVICES="+test.want+"\n", logs(t, j))
	}
}

func TestNothingAskedForIsNothingSet(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"GOMAXPROCS", "GOMEMLIMIT"} {
		j := launch(t, "environment "+key, func(s *backend.JobSpec) { s.Env = append(s.Env, key+"=5") })
		require.Equal(t, key+"=5\n", logs(t, j))
	}
}

func TestUsedMemoryIsInTheReason(t *testing.T) {
	t.Parallel()
	j := launch(t, "hog 2000", func(s *backend.JobSpec) { s.Resources = meta.Resources{Memory: 120} })
	status, err := j.Wait(context.Background())
	require.NoError(t, err)
	require.Regexp(t, `^used \d+ MiB of 120 MiB$`, status.Reason)
	require.Regexp(t, `killed, OOMKilled: used \d+ MiB of 120 MiB`, status.String())
	require.Positive(t, local.Resident(os.Getpid()))
	require.Zero(t, local.Resident(1<<30), "there is no such process")
}

// A program that has left the job's group and holds the job's output open does
// not delay the job's end.
func TestOutputHeldOpenByOthers(t *testing.T) {
	t.Parallel()
	j, err := local.New().Launch(context.Background(), backend.JobSpec{Name: "Job", Executable: "/bin/sh",
		Args: []string{"-c", "setsid sleep 100000 & until grep -q \"^$! (sleep) . [0-9]* $! \" /proc/$!/stat; do :; done; echo $!"}, Env: os.Environ()})
	require.NoError(t, err)
	status, err := j.Wait(context.Background())
	require.NoError(t, err)
	require.Zero(t, status.Code)
	pid, err := strconv.Atoi(strings.TrimSpace(logs(t, j)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// A stopped job can be terminated.
func TestTerminateAStoppedJob(t *testing.T) {
	t.Parallel()
	j := launch(t, "heed 8", nil)
	require.Equal(t, "up\n", logs(t, j))
	pid, err := strconv.Atoi(j.ID())
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.NoError(t, j.Signal(context.Background(), backend.Terminate))
	status, err := j.Wait(context.Background())
	require.NoError(t, err)
	require.Equal(t, 8, status.Code)
}

// root launches a job, prints its pid and waits.
func root(what string) {
	j, err := local.New().Launch(context.Background(), backend.JobSpec{Name: "Job", Env: append(os.Environ(), jobKey+"="+what)})
	if err != nil {
		panic(err)
	}
	// Threads come and go; only the end of the process ends the job.
	for range 50 {
		go func() { time.Sleep(time.Millisecond) }()
	}
	fmt.Println(j.ID())
	time.Sleep(time.Hour)
}

func TestJobsDieWithTheirRoot(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), rootKey+"=ignore")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var pid int
		_, err = fmt.Fscan(out, &pid)
		require.NoError(t, err)
		if stopped {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
		require.True(t, alive(pid))
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		for deadline := time.Now().Add(time.Minute); alive(pid); time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "the job lives on")
		}
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[0]
	return state != "Z" && state != "X"
}
