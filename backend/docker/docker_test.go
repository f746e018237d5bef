//go:build unix

package docker_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/backendtest"
	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
)

// patience bounds how long anything here may take.
const patience = time.Minute

// engine is the tests' own client, nil where no engine answers.
var engine *client.Client

// strangerKey makes this binary launch a container as another user, who has no permission to.
const strangerKey = "DOCKER_TEST_STRANGER"

func TestMain(m *testing.M) {
	backendtest.Main()
	if os.Getenv(strangerKey) != "" {
		_, err := docker.New(config.Config{}).Launch(context.Background(), backend.JobSpec{Name: "Job"})
		fmt.Println(err)
		os.Exit(0)
	}
	engine = dial()
	code := m.Run()
	for id := range containers() {
		fmt.Fprintln(os.Stderr, "leak: container", id)
		code = max(code, 1)
	}
	if engine != nil {
		engine.Close()
	}
	if err := goleak.Find(goleak.IgnoreTopFunction("os/signal.signal_recv")); err != nil {
		fmt.Fprintln(os.Stderr, "leak:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// dial returns a client of the engine, nil if none answers. The tests that need
// one are then skipped, with one message for all; FIBER_TEST_BACKEND=docker
// makes a missing engine an error.
func dial() *client.Client {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err = cli.Ping(ctx); err == nil {
			return cli
		}
		cli.Close()
	}
	if os.Getenv("FIBER_TEST_BACKEND") == "docker" {
		fmt.Fprintln(os.Stderr, "no docker engine answers:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "no docker engine answers (make engine-up starts one): its tests are skipped")
	return nil
}

// containers returns the containers of this process, by id.
func containers() map[string]bool {
	ids := map[string]bool{}
	if engine == nil {
		return ids
	}
	all, err := engine.ContainerList(context.Background(), container.ListOptions{All: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, c := range all {
		if root := strings.Fields(c.Labels["fiber.root"]); len(root) == 4 && root[2] == strconv.Itoa(os.Getpid()) {
			ids[c.ID] = true
		}
	}
	return ids
}

func needEngine(t testing.TB) {
	t.Helper()
	if engine == nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no docker engine answers: .ci/run has one answer")
		}
		t.Skip("no docker engine answers")
	}
}

// new returns a backend that is closed at the end of the test.
func newBackend(t testing.TB, opts config.Config) *docker.Backend {
	b := docker.New(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, b.Close(ctx))
	})
	return b
}

func TestBackend(t *testing.T) {
	needEngine(t)
	backendtest.Run(t, func(t *testing.T) backend.Backend { return newBackend(t, config.Config{}) })
}
