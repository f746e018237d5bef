//go:build unix

package fiber_test

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
)

// Programs on the docker backend, where an engine answers. What they do on all
// backends is in the other tests, by FIBER_TEST_BACKEND=docker.

// containerPatience is how long anything may take here: engines are slow when
// the machine is busy.
const containerPatience = patience

// engine is a client of the engine, nil where none answers. TestMain of
// backend/docker says so.
var engine = sync.OnceValue(func() *client.Client {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer cli.Close() // its idle connection
	if _, err := cli.Ping(ctx); err != nil {
		return nil
	}
	return cli
})

// contained starts a program whose children are containers.
func contained(t *testing.T, name string, env ...string) *execution {
	t.Helper()
	if engine() == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no docker engine answers: .ci/run has one answer")
		}
		t.Skip("no docker engine answers")
	}
	return start(t, name, append([]string{"FIBER_BACKEND=docker"}, env...)...)
}

// containers lists those of a root.
func containers(t testing.TB, root int) (all []container.Summary) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

func (x *execution) containers() []container.Summary { return containers(x.t, x.cmd.Process.Pid) }

// ships starts the program with children of all sorts, in containers.
func ships(t *testing.T) *execution {
	x := contained(t, "family")
	x.says("started")
	eventually(t, containerPatience, func() bool {
		running := slices.DeleteFunc(x.containers(), func(c container.Summary) bool { return c.State != "running" })
		return len(running) == 5
	}, "5 containers")
	return x
}

func TestContainersOfAKilledRoot(t *testing.T) {
	t.Parallel()
	x := ships(t)
	x.root(syscall.SIGKILL)
	eventually(t, containerPatience, func() bool {
		return !slices.ContainsFunc(x.containers(), func(c container.Summary) bool { return c.State == "running" })
	}, "containers live on")
	eventually(t, containerPatience, func() bool { return len(x.containers()) == 0 }, "the engine has containers left")
}

// settleIn is an initializer that takes for ever.
var settleIn = fiber.Register("settleIn", func(context.Context, none) (none, error) {
	fmt.Println("settling in")
	time.Sleep(time.Hour)
	return none{}, nil
})

var _ = mainProgram("settlers", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1, fiber.WithInitializer(settleIn, none{}))
	if err != nil {
		return err
	}
	defer pool.Terminate()
	return pool.WaitUntilWorkersUp(ctx)
})

func TestContainersOfAKilledRootThatInitialise(t *testing.T) {
	t.Parallel()
	x := contained(t, "settlers")
	x.says("settling in")
	x.root(syscall.SIGKILL)
	eventually(t, containerPatience, func() bool {
		return !slices.ContainsFunc(x.containers(), func(c container.Summary) bool { return c.State == "running" })
	}, "a worker lives on")
	eventually(t, containerPatience, func() bool { return len(x.containers()) == 0 }, "the engine has containers left")
}

func TestContainersAfterASignal(t *testing.T) {
	t.Parallel()
	x := ships(t)
	x.group(syscall.SIGINT)
	require.Equal(t, 130, x.wait(containerPatience))
	require.Empty(t, x.containers(), "containers are left")
	require.NotContains(t, x.err.String(), "canceled", "a signal is no error to print")

	x = contained(t, "stubborn")
	x.says("started")
	x.root(syscall.SIGINT)
	x.says("told")
	x.root(syscall.SIGTERM) // at once
	require.Equal(t, 143, x.wait(containerPatience))
	eventually(t, containerPatience, func() bool { return len(x.containers()) == 0 }, "containers are left")
}

func TestContainersAfterTheEnd(t *testing.T) {
	t.Parallel()
	x := contained(t, "fine")
	require.Equal(t, 0, x.wait(containerPatience))
	require.Equal(t, "squares 100 9801\n", x.out.String())
	require.Empty(t, x.err.String())
	require.Empty(t, x.containers())
}

// A container on the same bridge gets nothing from any port of the run, and the
// run does not mind it.
func TestContainersOfStrangersGetNothing(t *testing.T) {
	t.Parallel()
	x := contained(t, "fortress")
	eventually(t, containerPatience, func() bool { return strings.Contains(x.out.String(), "round 1 ") }, "it does not start")
	said, _, _ := strings.Cut(x.out.String(), "\n")
	addresses := strings.Fields(said)[1:]
	require.GreaterOrEqual(t, len(addresses), 4, "a home and a listener for children in each process: %s", said)

	ctx := within(t, containerPatience)
	defer engine().Close()
	made, err := engine().ContainerCreate(ctx, &container.Config{
		Image: x.containers()[0].Image, Env: []string{programKey + "=stranger", argKey + "=" + strings.Join(addresses, " ")},
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
	require.Equal(t, len(addresses)*len(strangersTries), strings.Count(got.String(), "\n"))
	for line := range strings.Lines(got.String()) {
		require.Regexp(t, ": nothing\n$", line)
	}
	rounds := strings.Count(x.out.String(), "round")
	eventually(t, patience, func() bool { return strings.Count(x.out.String(), "round") > rounds+1 }, "the run does not go on")
	require.Regexp(t, `\nround \d+ lost 0\n$`, x.out.String())
	x.group(syscall.SIGINT)
	x.wait(containerPatience)
}

func TestOutputOfContainers(t *testing.T) {
	t.Parallel()
	x := contained(t, "talkative", prefixKey+"=on")
	require.Zero(t, x.wait(containerPatience))
	require.Equal(t, "Process-1 | from stdout\nkept 24\n", x.out.String())
	require.Equal(t, "Process-1 | from stderr\n", x.err.String())
	x = contained(t, "choir", prefixKey+"=on")
	require.Zero(t, x.wait(containerPatience), "%s", x.err.String())
	requireSong(t, x.out.String())
	x = contained(t, "talkative", "FIBER_FORWARD_LOGS=off")
	require.Zero(t, x.wait(containerPatience))
	require.Equal(t, "kept 24\n", x.out.String())
	require.Empty(t, x.err.String())
}

// beneath starts a process that has a pool, and gives what came of it.
var beneath = fiber.Register("beneath", func(ctx context.Context, _ none) (none, error) {
	p := fiber.NewProcess(bottom, none{})
	if err := p.Start(ctx); err != nil {
		return none{}, err
	}
	return none{}, p.Join(ctx)
})

var bottom = fiber.Register("bottom", func(ctx context.Context, _ none) (none, error) {
	pool, err := fiber.NewPool(2, fiber.WithMaxAttempts(1))
	if err != nil {
		return none{}, err
	}
	defer pool.Close()
	squares, err := fiber.Map(ctx, pool, square, numbers(100))
	if err != nil || squares[99] != 99*99 {
		return none{}, fmt.Errorf("squares %v: %w", squares, err)
	}
	if _, err := fiber.Apply(ctx, pool, die, int(syscall.SIGKILL)); !errors.As(err, new(*fiber.WorkerLostError)) ||
		!strings.Contains(err.Error(), "last words") {
		return none{}, fmt.Errorf("a worker that is lost: %w", err)
	}
	return none{}, nil
})

var _ = mainProgram("nested ships", func(ctx context.Context) error {
	p := fiber.NewProcess(beneath, none{})
	if err := p.Start(ctx); err != nil {
		return err
	}
	return p.Join(ctx)
})

func TestContainersStartContainers(t *testing.T) {
	t.Parallel()
	x := contained(t, "nested ships")
	require.Zero(t, x.wait(containerPatience), x.err.String())
	require.Empty(t, x.containers())
}

var _ = mainProgram("hungry", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2, fiber.WithMaxAttempts(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	meals := fiber.MapAsync(ctx, pool, hog, []int{1, 2, 3, 4, 5, 6})
	_, err = fiber.Apply(ctx, pool, hog, 2000)
	var lost *fiber.WorkerLostError
	if !errors.As(err, &lost) || !lost.OOM || !strings.Contains(err.Error(), "OOMKilled") || !strings.Contains(err.Error(), "150 MiB") {
		return fmt.Errorf("too much memory: %w", err)
	}
	_, err = meals.Get(ctx)
	return err
})

func TestContainerOutOfMemory(t *testing.T) {
	t.Parallel()
	x := contained(t, "hungry")
	require.Zero(t, x.wait(containerPatience), x.err.String())
	require.Regexp(t, `msg="fiber: a worker was lost" worker=Pool1Worker-\d container=[0-9a-f]{12} host=\S+ reason="[^"]*OOMKilled.*" tasks="1 failed at attempt 1 of 1`,
		x.err.String())
}

// A pool that cannot start says why, long before start_timeout.
var _ = mainProgram("no start", func(ctx context.Context) error {
	pool, err := fiber.NewPool(4)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = fiber.Map(ctx, pool, square, numbers(10))
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
			require.Zero(t, x.wait(containerPatience), x.err.String())
			for _, text := range test.says {
				require.Contains(t, x.out.String(), text)
			}
			if name != "no engine" {
				require.Empty(t, x.containers())
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

var _ = mainProgram("storm", func(ctx context.Context) error {
	seed := chaosSeed()
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
	ins := choresFrom(seed)[:stormTasks]
	for i := range ins {
		ins[i].Micros *= 4
	}
	outs, err := fiber.Map(ctx, pool, chores, ins)
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
	if _, err := fiber.Map(ctx, pool, square, numbers(1000)); err != nil {
		return err
	}
	fmt.Println("calm", killed, "killed", paused, "paused")
	return nil
})

func TestChaosOfContainers(t *testing.T) {
	t.Parallel()
	seed := os.Getenv(seedKey)
	if seed == "" {
		seed = strconv.Itoa(rand.IntN(1_000_000))
	}
	t.Log(seedKey + "=" + seed)
	x := contained(t, "storm", argKey+"="+seed, "FIBER_HEARTBEAT_INTERVAL=200ms", "FIBER_HEARTBEAT_TIMEOUT=2s")
	require.Zero(t, x.wait(2*containerPatience), x.err.String())
	require.Contains(t, x.out.String(), "calm")
	require.Empty(t, x.containers())
	t.Log(x.out.String())
}
