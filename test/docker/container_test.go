//go:build unix

package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Programs on the docker backend, where an engine answers. What they do on all
// backends is in the other tests, by FIBER_TEST_BACKEND=docker.

// containerPatience is how long anything may take here: engines are slow when
// the machine is busy.
const containerPatience = fibertest.Patience

// engine is a client of the engine, nil where none answers. TestMain of
// backend/docker says so.
var engine = sync.OnceValue(func() *client.Client {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), fibertest.Patience)
	defer cancel()
	defer cli.Close() // its idle connection
	if _, err := cli.Ping(ctx); err != nil {
		return nil
	}
	return cli
})

// contained starts a program whose children are containers.
func contained(t *testing.T, name string, env ...string) *fibertest.Execution {
	t.Helper()
	if engine() == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no docker engine answers: .ci/run has one answer")
		}
		t.Skip("no docker engine answers")
	}
	return fibertest.Start(t, name, append([]string{"FIBER_BACKEND=docker"}, env...)...)
}

// containers lists those of a root.
func containers(t testing.TB, root int) (all []container.Summary) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), fibertest.Patience)
	defer cancel()
	found, err := engine().ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "fiber.root"))})
	engine().Close() // its idle connections
	require.NoError(t, err)
	for _, c := range found {
		if fields := strings.Fields(c.Labels["fiber.root"]); len(fields) == 4 && fields[2] == strconv.Itoa(root) {
			all = append(all, c)
		}
	}
	return all
}

// containersOf lists those of a program's run.
func containersOf(t testing.TB, x *fibertest.Execution) []container.Summary {
	t.Helper()
	return containers(t, x.Cmd.Process.Pid)
}

// ships starts the program with children of all sorts, in containers.
func ships(t *testing.T) *fibertest.Execution {
	x := contained(t, "family")
	x.Says("started")
	fibertest.Eventually(t, containerPatience, func() bool {
		running := slices.DeleteFunc(containersOf(t, x), func(c container.Summary) bool { return c.State != "running" })
		return len(running) == 5
	}, "5 containers")
	return x
}

func TestContainersOfAKilledRoot(t *testing.T) {
	t.Parallel()
	x := ships(t)
	x.SignalRoot(syscall.SIGKILL)
	fibertest.Eventually(t, containerPatience, func() bool {
		return !slices.ContainsFunc(containersOf(t, x), func(c container.Summary) bool { return c.State == "running" })
	}, "containers live on")
	fibertest.Eventually(t, containerPatience, func() bool { return len(containersOf(t, x)) == 0 }, "the engine has containers left")
}

// settleIn is an initializer that takes for ever.
var settleIn = fiber.Register("settleIn", func(context.Context, fibertest.None) (fibertest.None, error) {
	fmt.Println("settling in")
	time.Sleep(time.Hour)
	return fibertest.None{}, nil
})

var _ = fibertest.MainProgram("settlers", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1, fiber.WithInitializer(settleIn, fibertest.None{}))
	if err != nil {
		return err
	}
	defer pool.Terminate()
	return pool.WaitUntilWorkersUp(ctx)
})

func TestContainersOfAKilledRootThatInitialise(t *testing.T) {
	t.Parallel()
	x := contained(t, "settlers")
	x.Says("settling in")
	x.SignalRoot(syscall.SIGKILL)
	fibertest.Eventually(t, containerPatience, func() bool {
		return !slices.ContainsFunc(containersOf(t, x), func(c container.Summary) bool { return c.State == "running" })
	}, "a worker lives on")
	fibertest.Eventually(t, containerPatience, func() bool { return len(containersOf(t, x)) == 0 }, "the engine has containers left")
}

func TestContainersAfterASignal(t *testing.T) {
	t.Parallel()
	x := ships(t)
	x.SignalGroup(syscall.SIGINT)
	require.Equal(t, 130, x.Wait(containerPatience))
	require.Empty(t, containersOf(t, x), "containers are left")
	require.NotContains(t, x.Err.String(), "canceled", "a signal is no error to print")

	x = contained(t, "stubborn")
	x.Says("started")
	x.SignalRoot(syscall.SIGINT)
	x.Says("told")
	x.SignalRoot(syscall.SIGTERM) // at once
	require.Equal(t, 143, x.Wait(containerPatience))
	fibertest.Eventually(t, containerPatience, func() bool { return len(containersOf(t, x)) == 0 }, "containers are left")
}

func TestContainersAfterTheEnd(t *testing.T) {
	t.Parallel()
	x := contained(t, "fine")
	require.Equal(t, 0, x.Wait(containerPatience))
	require.Equal(t, "squares 100 9801\n", x.Out.String())
	require.Empty(t, x.Err.String())
	require.Empty(t, containersOf(t, x))
}

// A container on the same bridge gets nothing from any port of the run, and the
// run does not mind it.
func TestContainersOfStrangersGetNothing(t *testing.T) {
	t.Parallel()
	x := contained(t, "fortress")
	fibertest.Eventually(t, containerPatience, func() bool { return strings.Contains(x.Out.String(), "round 1 ") }, "it does not start")
	said, _, _ := strings.Cut(x.Out.String(), "\n")
	addresses := strings.Fields(said)[1:]
	require.GreaterOrEqual(t, len(addresses), 4, "a home and a listener for children in each process: %s", said)

	ctx := fibertest.Within(t, containerPatience)
	defer engine().Close()
	made, err := engine().ContainerCreate(ctx, &container.Config{
		Image: containersOf(t, x)[0].Image, Env: []string{fibertest.ProgramKey + "=stranger", fibertest.ArgKey + "=" + strings.Join(addresses, " ")},
	}, nil, nil, nil, "")
	require.NoError(t, err)
	defer engine().ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	require.NoError(t, engine().ContainerStart(ctx, made.ID, container.StartOptions{}))
	ended, failed := engine().ContainerWait(ctx, made.ID, container.WaitConditionNotRunning)
	select {
	case status := <-ended:
		require.Zero(t, status.StatusCode)
	case err := <-failed:
		require.NoError(t, err)
	}
	logs, err := engine().ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	require.NoError(t, err)
	defer logs.Close()
	var got bytes.Buffer
	_, err = stdcopy.StdCopy(&got, &got, logs)
	require.NoError(t, err)
	require.Equal(t, len(addresses)*len(fibertest.StrangersTries), strings.Count(got.String(), "\n"))
	for line := range strings.Lines(got.String()) {
		require.Regexp(t, ": nothing\n$", line)
	}
	rounds := strings.Count(x.Out.String(), "round")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return strings.Count(x.Out.String(), "round") > rounds+1 }, "the run does not go on")
	require.Regexp(t, `\nround \d+ lost 0\n$`, x.Out.String())
	x.SignalGroup(syscall.SIGINT)
	x.Wait(containerPatience)
}

func TestOutputOfContainers(t *testing.T) {
	t.Parallel()
	x := contained(t, "talkative", fibertest.PrefixKey+"=on")
	require.Zero(t, x.Wait(containerPatience))
	require.Equal(t, "Process-1 | from stdout\nkept 24\n", x.Out.String())
	require.Equal(t, "Process-1 | from stderr\n", x.Err.String())
	x = contained(t, "choir", fibertest.PrefixKey+"=on")
	require.Zero(t, x.Wait(containerPatience), "%s", x.Err.String())
	fibertest.RequireSong(t, x.Out.String())
	x = contained(t, "talkative", "FIBER_FORWARD_LOGS=off")
	require.Zero(t, x.Wait(containerPatience))
	require.Equal(t, "kept 24\n", x.Out.String())
	require.Empty(t, x.Err.String())
}

func TestContainersStartContainers(t *testing.T) {
	t.Parallel()
	x := contained(t, "nested ships")
	require.Zero(t, x.Wait(containerPatience), x.Err.String())
	require.Empty(t, containersOf(t, x))
}

func TestContainerOutOfMemory(t *testing.T) {
	t.Parallel()
	x := contained(t, "hungry")
	require.Zero(t, x.Wait(containerPatience), x.Err.String())
	require.Regexp(t, `msg="fiber: a worker was lost" worker=Pool1Worker-\d id=[0-9a-f]{12} host=\S+ reason="[^"]*OOMKilled.*" tasks="1 failed at attempt 1 of 1`,
		x.Err.String())
}

// A pool that cannot start says why, long before start_timeout.
var _ = fibertest.MainProgram("no start", func(ctx context.Context) error {
	pool, err := fiber.NewPool(4)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = fiber.Map(ctx, pool, fibertest.Square, fibertest.Numbers(10))
	var launch *fiber.LaunchError
	if !errors.As(err, &launch) || launch.Backend != "docker" {
		return fmt.Errorf("no LaunchError: %w", err)
	}
	fmt.Println(err)
	return nil
})

func TestContainersThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  []string
		says []string
	}{
		"no engine":     {[]string{"DOCKER_HOST=unix:///no/engine"}, []string{"/no/engine"}},
		"no way back":   {[]string{"FIBER_HOST=127.0.0.1"}, []string{"tls:127.0.0.1:", "FIBER_HOST"}},
		"no route":      {[]string{"FIBER_HOST=192.0.2.1"}, []string{"tls:192.0.2.1:", "FIBER_HOST"}},
		"no such image": {[]string{"FIBER_IMAGE=registry.invalid/no/such:v1"}, []string{"registry.invalid/no/such:v1"}},
		"no base image": {[]string{"FIBER_BASE_IMAGE=registry.invalid/no/base:v1"}, []string{"registry.invalid/no/base:v1"}},
		"no network":    {[]string{"FIBER_DOCKER_NETWORK=no-such-net"}, []string{"no-such-net"}},
		"no such path":  {[]string{"FIBER_DOCKER_VOLUMES=/no/such/path:/data"}, []string{"FIBER_DOCKER_VOLUMES names /no/such/path, which"}},
		"no capability": {[]string{"FIBER_DOCKER_CAPABILITIES=FLY"}, []string{"FLY"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := contained(t, "no start", test.env...)
			require.Zero(t, x.Wait(containerPatience), x.Err.String())
			for _, text := range test.says {
				require.Contains(t, x.Out.String(), text)
			}
			if name != "no engine" {
				require.Empty(t, containersOf(t, x))
			}
		})
	}
}

const (
	stormTasks   = 5_000
	stormWorkers = 4
)

// storm kills and pauses the containers of a pool until it is called off.
func storm(pool *fiber.Pool, seed uint64, stop <-chan struct{}) (killed, paused int) {
	cli := engine()
	defer cli.Close()
	r := rand.New(rand.NewPCG(seed, 3))
	for {
		select {
		case <-stop:
			return killed, paused
		case <-time.After(time.Duration(200+r.IntN(800)) * time.Millisecond):
		}
		workers := pool.Stats().Processes
		if len(workers) == 0 {
			continue
		}
		id := workers[r.IntN(len(workers))].ID
		if r.IntN(2) == 0 {
			if cli.ContainerKill(context.Background(), id, "SIGKILL") == nil {
				killed++
			}
		} else if cli.ContainerPause(context.Background(), id) == nil {
			paused++
		}
	}
}

var _ = fibertest.MainProgram("storm", func(ctx context.Context) error {
	seed := fibertest.ChaosSeed()
	pool, err := fiber.NewPool(stormWorkers, fiber.WithMaxAttempts(20))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	stop, killed, paused := make(chan struct{}), 0, 0
	var raging sync.WaitGroup
	raging.Go(func() { killed, paused = storm(pool, seed, stop) })
	ins := fibertest.ChoresFrom(seed, stormTasks)
	for i := range ins {
		ins[i].Micros *= 4
	}
	outs, err := fiber.Map(ctx, pool, fibertest.Chores, ins)
	close(stop)
	raging.Wait()
	if err != nil {
		return err
	}
	if len(outs) != len(ins) {
		return fmt.Errorf("%d results of %d", len(outs), len(ins))
	}
	for i, out := range outs {
		if out != i*7+1 {
			return fmt.Errorf("task %d gave %d", i, out)
		}
	}
	if killed+paused == 0 {
		return errors.New("there was no storm")
	}
	for { // a paused one among them is found out by its silence
		if s := pool.Stats(); s.Ready == stormWorkers && s.Starting == 0 && len(s.Processes) == stormWorkers {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := fiber.Map(ctx, pool, fibertest.Square, fibertest.Numbers(1000)); err != nil {
		return err
	}
	fmt.Println("calm", killed, "killed", paused, "paused")
	return nil
})

func TestChaosOfContainers(t *testing.T) {
	t.Parallel()
	seed := os.Getenv(fibertest.SeedKey)
	if seed == "" {
		seed = strconv.Itoa(rand.IntN(1_000_000))
	}
	t.Log(fibertest.SeedKey + "=" + seed)
	x := contained(t, "storm", fibertest.ArgKey+"="+seed, "FIBER_HEARTBEAT_INTERVAL=200ms", "FIBER_HEARTBEAT_TIMEOUT=2s")
	require.Zero(t, x.Wait(2*containerPatience), x.Err.String())
	require.Contains(t, x.Out.String(), "calm")
	require.Empty(t, containersOf(t, x))
	t.Log(x.Out.String())
}
