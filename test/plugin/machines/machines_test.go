//go:build linux

package machines_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/backendtest"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/plugin/machines"
)

func TestMain(m *testing.M) {
	backendtest.Main()
	os.Setenv("FIBER_BACKEND", "machines")
	os.Setenv("FIBER_MACHINES_GPUS", "red,green")
	os.Setenv("FIBER_HEARTBEAT_TIMEOUT", "3s") // a dead machine is silent
	if err := fiber.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	fiber.Shutdown(context.Background())
	os.Exit(code)
}

func TestBackend(t *testing.T) {
	settings := map[string]string{"machines_count": "2"}
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b := machines.New(backend.Options{Setting: func(key string) string { return settings[key] }, Log: slog.Default()})
		t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
		return b
	})
}

// place is where a task runs.
type place struct {
	PID                int
	Dir, Devices, Seen string
}

var where = fiber.Register("where", func(_ context.Context, pause time.Duration) (place, error) {
	time.Sleep(pause)
	dir, err := os.Getwd()
	return place{os.Getpid(), dir, os.Getenv("CUDA_VISIBLE_DEVICES"), os.Getenv("USER_OF_THIS_MACHINE")}, err
})

// Workers are on both machines, have the machines' GPUs, and nothing of this machine's environment.
func TestMachines(t *testing.T) {
	t.Setenv("USER_OF_THIS_MACHINE", "somebody")
	pool, err := fiber.NewPool(2, fiber.WithMeta(meta.GPU(1)))
	require.NoError(t, err)
	defer pool.Terminate()
	dirs, devices := map[string]bool{}, map[string]bool{}
	for len(dirs) < 2 || len(devices) < 2 {
		results, err := fiber.Map(t.Context(), pool, where, slowly(2), fiber.ChunkSize(1))
		require.NoError(t, err)
		for _, p := range results {
			dirs[p.Dir], devices[p.Devices] = true, true
			require.Empty(t, p.Seen)
		}
	}
	require.Equal(t, map[string]bool{"red": true, "green": true}, devices)
}

func TestKilledWorker(t *testing.T) {
	pool, err := fiber.NewPool(2)
	require.NoError(t, err)
	defer pool.Terminate()
	first, err := fiber.Apply(t.Context(), pool, where, 0)
	require.NoError(t, err)
	all := fiber.MapAsync(t.Context(), pool, where, slowly(200))
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	results, err := all.Get(t.Context())
	require.NoError(t, err)
	require.Len(t, results, 200)
}

// When a machine falls silent, its tasks run on the others, and new workers avoid it.
func TestDeadMachine(t *testing.T) {
	pool, err := fiber.NewPool(4)
	require.NoError(t, err)
	defer pool.Terminate()
	first, err := fiber.Apply(t.Context(), pool, where, 0)
	require.NoError(t, err)
	all := fiber.MapAsync(t.Context(), pool, where, slowly(1000))
	silence(t, first)
	results, err := all.Get(t.Context())
	require.NoError(t, err)
	require.Len(t, results, 1000)
}

// slowly returns the pauses of n tasks of 10 ms.
func slowly(n int) []time.Duration { return slices.Repeat([]time.Duration{10 * time.Millisecond}, n) }

// silence takes a machine's network away or, without one, stops its processes.
func silence(t *testing.T, on place) {
	t.Helper()
	if os.Geteuid() == 0 {
		out, err := exec.Command("nsenter", "--net=/proc/"+fmt.Sprint(on.PID)+"/ns/net", "ip", "link", "set", "eth0", "down").CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	procs, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, p := range procs {
		if dir, err := os.Readlink("/proc/" + p.Name() + "/cwd"); err == nil && dir == on.Dir {
			var pid int
			fmt.Sscan(p.Name(), &pid)
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
	}
}

// The examples run there, with a line that imports the backend.
func TestExamples(t *testing.T) {
	for example, want := range map[string]string{"pi -samples 10000 -workers 3": "Pi is roughly 3", "es": "iteration 200/200"} {
		name, args, _ := strings.Cut(example, " ")
		dir := t.TempDir()
		text, err := os.ReadFile("../../../examples/" + name + "/main.go")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(dir+"/main.go", text, 0o600))
		plug := "package main\n\nimport _ \"github.com/fiber-go/fiber/test/plugin/machines\"\n"
		require.NoError(t, os.WriteFile(dir+"/plug.go", []byte(plug), 0o600))
		build := exec.Command("go", "build", "-o", dir+"/program", dir+"/main.go", dir+"/plug.go")
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s", out)
		out, err = exec.Command(dir+"/program", strings.Fields(args)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), want)
	}
}
