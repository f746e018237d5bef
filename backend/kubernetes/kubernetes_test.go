//go:build unix

package kubernetes_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/backendtest"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
)

// patience bounds how long anything here may take.
const patience = time.Minute

// kubeconfigKey names the cluster that the tests use; without it they use none.
const kubeconfigKey = "FIBER_TEST_KUBECONFIG"

// client is the tests' own, nil without a cluster.
var client *kube.Client

func TestMain(m *testing.M) {
	backendtest.Main()
	client = dial()
	before := left()
	code := m.Run()
	for name := range left() {
		if !before[name] {
			fmt.Fprintln(os.Stderr, "leak:", name)
			code = max(code, 1)
		}
	}
	if client != nil {
		client.Close()
	}
	if err := goleak.Find(goleak.IgnoreTopFunction("os/signal.signal_recv")); err != nil {
		fmt.Fprintln(os.Stderr, "leak:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// dial returns a client of the cluster, nil if there is none. The tests that
// need one are then skipped, with one message for all.
func dial() *kube.Client {
	path := os.Getenv(kubeconfigKey)
	if path == "" {
		fmt.Fprintln(os.Stderr, "no cluster ("+kubeconfigKey+" is not set; make test-kubernetes starts one): its tests are skipped")
		return nil
	}
	os.Setenv("KUBECONFIG", path)
	c, err := kube.Connect("")
	if err == nil {
		_, err = c.Nodes(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return c
}

// left returns the names of what Fiber has on the cluster.
func left() map[string]bool {
	names := map[string]bool{}
	if client == nil {
		return names
	}
	pods, err := client.Pods(context.Background(), kube.Managed, false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return names
	}
	for _, p := range pods.Items {
		names["pod "+p.Name] = true
	}
	secrets, err := client.Secrets(context.Background(), kube.Managed)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return names
	}
	for _, s := range secrets {
		names["secret "+s.Name] = true
	}
	return names
}

func needCluster(t testing.TB) {
	t.Helper()
	if client == nil {
		t.Skip("no cluster")
	}
}

// options returns the settings for the tests' cluster: FIBER_TEST_HOST is where
// its pods reach this machine, FIBER_TEST_REGISTRY where it pulls images from.
func options() config.Config {
	o := config.Config{Host: os.Getenv("FIBER_TEST_HOST"), Registry: os.Getenv("FIBER_TEST_REGISTRY")}
	if o.Registry == "" {
		o.Registry = "localhost:5000"
	}
	return o
}

// newBackend returns a backend that is closed at the end of the test.
func newBackend(t testing.TB, opts config.Config) *kubernetes.Backend {
	b := kubernetes.New(opts, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, b.Close(ctx))
	})
	return b
}

func TestBackend(t *testing.T) {
	needCluster(t)
	backendtest.Run(t, func(t *testing.T) backend.Backend { return newBackend(t, options()) })
}

var _ = url.Parse
