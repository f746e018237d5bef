//go:build unix

package kubernetes_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// These tests need a real cluster, and go beyond what every backend must do.

func kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "kubectl %v: %s", args, out)
	return string(out)
}

// namespace makes a namespace that is removed when the test ends.
func namespace(t testing.TB) string {
	t.Helper()
	needCluster(t)
	return fibertest.Namespace(t)
}

func job(what string) backend.JobSpec {
	env, _ := config.Portable(os.Environ(), []string{"*", config.Own})
	return backend.JobSpec{Name: "Job", Run: "run", Env: append(env, "BACKENDTEST_JOB="+what)}
}

func launch(t testing.TB, b backend.Backend, spec backend.JobSpec) backend.Job {
	t.Helper()
	j, err := b.Launch(soon(t), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Remove(soon(t))) })
	return j
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// pending waits for the job's reason to wait.
func pending(t testing.TB, j backend.Job) string {
	t.Helper()
	reason := ""
	require.Eventually(t, func() bool { reason, _ = j.(backend.Waiter).Pending(); return reason != "" }, patience, 10*time.Millisecond)
	return reason
}

// never waits for the failure of a job that cannot be started.
func never(t testing.TB, j backend.Job) *backend.LaunchError {
	t.Helper()
	_, err := j.Wait(soon(t))
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.Equal(t, "kubernetes", launch.Backend)
	require.Equal(t, "Job", launch.Job)
	return launch
}

func TestNoRoom(t *testing.T) {
	needCluster(t)
	b := newBackend(t, options())
	spec := job("exit 0")
	spec.Resources = meta.Resources{CPU: 4000}
	reason := pending(t, launch(t, b, spec))
	require.Contains(t, reason, "Unschedulable")
	require.Contains(t, reason, "Insufficient cpu")
	require.Regexp(t, `No node can hold it: the largest node, \S+, has \S+ CPUs`, reason)

	spec.Resources = meta.Resources{GPU: 3}
	require.Contains(t, pending(t, launch(t, b, spec)), "nvidia.com/gpu")
}

// Jobs that are launched at the same time are all made, once each.
func TestManyPods(t *testing.T) {
	needCluster(t)
	const many = 500
	b := newBackend(t, options())
	spec := job("exit 0")
	spec.Name = "Many"
	spec.Resources = meta.Resources{CPU: 4000} // a small node holds no more than 110
	var launches errgroup.Group
	for range many {
		launches.Go(func() error { _, err := b.Launch(soon(t), spec); return err })
	}
	require.NoError(t, launches.Wait())
	pods, err := client.Pods(t.Context(), kube.Managed+",fiber.name=Many", false)
	require.NoError(t, err)
	require.Len(t, pods.Items, many)
}

func TestImagesThatCannotBePulled(t *testing.T) {
	needCluster(t)
	for name, test := range map[string]struct {
		image string
		words []string
	}{
		"none there":  {"localhost:5000/no/such:image", []string{"ErrImagePull", "localhost:5000/no/such:image", "not found"}},
		"no registry": {"localhost:5999/no/such:image", []string{"ErrImagePull", "connection refused"}},
		"bad name":    {"Not An Image", []string{"InvalidImageName"}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Image = test.image
			launch := never(t, launch(t, newBackend(t, opts), job("exit 0")))
			require.True(t, launch.Permanent)
			for _, w := range test.words {
				require.ErrorContains(t, launch, w)
			}
		})
	}
}

func TestWhatIsMissing(t *testing.T) {
	needCluster(t)
	opts := options()
	opts.KubernetesVolumes = []string{"no-such-claim:/persistent"}
	launchError := never(t, launch(t, newBackend(t, opts), job("exit 0")))
	require.ErrorContains(t, launchError, "the namespace has no claim no-such-claim")
	require.True(t, launchError.Permanent)

	opts = options()
	opts.PodTemplate = template(t, `spec: {containers: [{envFrom: [{configMapRef: {name: no-such-map}}]}]}`)
	launchError = never(t, launch(t, newBackend(t, opts), job("exit 0")))
	require.ErrorContains(t, launchError, `CreateContainerConfigError: configmap "no-such-map" not found`)
	require.True(t, launchError.Permanent)

	opts = options()
	opts.KubernetesNamespace = "no-such-namespace"
	_, err := newBackend(t, opts).Launch(soon(t), job("exit 0"))
	refused(t, err, "no-such-namespace", "namespace")

	opts = options()
	opts.Registry = ""
	_, err = newBackend(t, opts).Launch(soon(t), job("exit 0"))
	refused(t, err, "FIBER_REGISTRY", "FIBER_IMAGE")
	opts.Registry = "localhost:5999"
	_, err = newBackend(t, opts).Launch(soon(t), job("exit 0"))
	refused(t, err, "localhost:5999", "connection refused")
}

func refused(t testing.TB, err error, words ...string) {
	t.Helper()
	var launch *backend.LaunchError
	require.ErrorAs(t, err, &launch)
	require.True(t, launch.Permanent, "%v", err)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
	require.NotContains(t, err.Error(), "\n", "it is one line")
}

func TestQuota(t *testing.T) {
	needCluster(t)
	opts := options()
	opts.KubernetesNamespace = namespace(t)
	kubectl(t, "", "-n", opts.KubernetesNamespace, "create", "quota", "small", "--hard=pods=0")
	require.Eventually(t, func() bool { // until the quota is counted
		out, err := exec.Command("kubectl", "-n", opts.KubernetesNamespace, "get", "quota", "small", "-o", "jsonpath={.status.used.pods}").Output()
		return err == nil && string(out) == "0"
	}, patience, 100*time.Millisecond)
	_, err := newBackend(t, opts).Launch(soon(t), job("exit 0"))
	refused(t, err, "exceeded quota: small", "limited: pods=0")
	require.NotContains(t, err.Error(), "rbac.yaml")
}

// kubeconfig writes a kubeconfig for a user of the cluster.
func kubeconfig(t testing.TB, user, server string) string {
	t.Helper()
	var config struct {
		Clusters []struct{ Cluster map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "", "config", "view", "--raw", "--minify", "--flatten", "-o", "json")), &config))
	cluster := config.Clusters[0].Cluster
	if server != "" {
		cluster["server"] = server
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}},
		"clusters": []any{map[string]any{"name": "x", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"token": user}}}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// The rights of deploy/rbac.yaml are enough to run pods; without them, the error
// says which are missing.
func TestPermissions(t *testing.T) {
	opts := options()
	opts.KubernetesNamespace = namespace(t)
	kubectl(t, "", "-n", opts.KubernetesNamespace, "create", "serviceaccount", "nobody")
	t.Setenv("KUBECONFIG", kubeconfig(t, strings.TrimSpace(kubectl(t, "", "-n", opts.KubernetesNamespace, "create", "token", "nobody")), ""))
	_, err := newBackend(t, opts).Launch(soon(t), job("exit 0"))
	refused(t, err, "create", "secrets", "deploy/rbac.yaml", opts.KubernetesNamespace)

	os.Setenv("KUBECONFIG", os.Getenv(kubeconfigKey))
	kubectl(t, "", "-n", opts.KubernetesNamespace, "apply", "-f", "../../deploy/rbac.yaml")
	t.Setenv("KUBECONFIG", kubeconfig(t, strings.TrimSpace(kubectl(t, "", "-n", opts.KubernetesNamespace, "create", "token", "fiber")), ""))
	b := newBackend(t, opts)
	j := launch(t, b, job("exit 3"))
	status, err := j.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, 3, status.Code)
	spec := job("exit 0")
	spec.Resources = meta.Resources{CPU: 4000}
	reason := pending(t, launch(t, b, spec))
	require.Contains(t, reason, "Insufficient cpu")
	require.NotContains(t, reason, "largest", "it may not look at nodes")
}

func TestClustersThatDoNotAnswer(t *testing.T) {
	needCluster(t)
	for name, test := range map[string]struct {
		kubeconfig string
		words      []string
	}{
		"dead":         {kubeconfig(t, "x", "https://127.0.0.1:1"), []string{"127.0.0.1:1", "connection refused"}},
		"no such host": {kubeconfig(t, "x", "https://no-such-host.invalid"), []string{"no-such-host.invalid", "no such host"}},
		"bad token":    {kubeconfig(t, "expired", ""), []string{"credentials"}},
		"no file":      {"/no/such/kubeconfig", []string{"KUBECONFIG", "/no/such/kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.kubeconfig)
			_, err := newBackend(t, options()).Launch(soon(t), job("exit 0"))
			refused(t, err, test.words...)
		})
	}
}

// An image made here runs where pods may not run as root.
func TestRestrictedNamespace(t *testing.T) {
	needCluster(t)
	opts := options()
	opts.KubernetesNamespace = namespace(t)
	kubectl(t, "", "label", "namespace", opts.KubernetesNamespace, "pod-security.kubernetes.io/enforce=restricted")
	j := launch(t, newBackend(t, opts), job("exit 3"))
	status, err := j.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, 3, status.Code)
}

// Users who may see pods see what a job was started with, except for its
// environment.
func TestEnvironmentIsInNoPodSpec(t *testing.T) {
	needCluster(t)
	spec := job("wait")
	spec.Env = append(spec.Env, "TOKEN=very-secret")
	spec.Public = []string{"VISIBLE=yes"}
	j := launch(t, newBackend(t, options()), spec)
	text := kubectl(t, "", "get", "pod", j.ID(), "-o", "yaml")
	require.Contains(t, text, "VISIBLE")
	require.NotContains(t, text, "very-secret")
	require.NotContains(t, text, "TOKEN")
}

func TestSomebodyElseDeletesAPod(t *testing.T) {
	needCluster(t)
	b := newBackend(t, options())
	for _, args := range [][]string{{"--grace-period=1"}, {"--grace-period=0", "--force"}} {
		j := launch(t, b, job("ignore"))
		running(t, j)
		kubectl(t, "", append([]string{"delete", "pod", j.ID(), "--wait=false"}, args...)...)
		status, err := j.Wait(soon(t))
		require.NoError(t, err)
		require.NotZero(t, status.Code)
	}
	spec := job("exit 0") // before it has started
	spec.Resources = meta.Resources{CPU: 4000}
	j := launch(t, b, spec)
	pending(t, j)
	kubectl(t, "", "delete", "pod", j.ID())
	require.ErrorContains(t, never(t, j), "deleted")
}

func running(t testing.TB, j backend.Job) {
	t.Helper()
	require.Eventually(t, func() bool { _, pending := j.(backend.Waiter).Pending(); return !pending }, patience, 10*time.Millisecond)
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := j.Wait(ended)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it runs")
}

// With two GPUs, of three jobs that need one each never more than two run at once.
func TestGPUs(t *testing.T) {
	needCluster(t)
	node := strings.TrimSpace(kubectl(t, "", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	opts := options()
	opts.KubernetesGPUResource = "example.com/gpu"
	patch := func(op string) {
		kubectl(t, "", "patch", "node", node, "--subresource=status", "--type=json",
			"-p", `[{"op":"`+op+`","path":"/status/capacity/example.com~1gpu","value":"2"}]`)
	}
	patch("add")
	t.Cleanup(func() { patch("remove") })
	require.Eventually(t, func() bool {
		return kubectl(t, "", "get", "node", node, "-o", `jsonpath={.status.allocatable.example\.com/gpu}`) == "2"
	}, patience, 200*time.Millisecond)
	b := newBackend(t, opts)
	spec := job("ignore")
	spec.Resources = meta.Resources{GPU: 1}
	one, two, three := launch(t, b, spec), launch(t, b, spec), launch(t, b, spec)
	waiting := make(chan backend.Job, 3)
	for _, j := range []backend.Job{one, two, three} {
		go func() {
			for pending := true; pending; time.Sleep(10 * time.Millisecond) {
				var reason string
				if reason, pending = j.(backend.Waiter).Pending(); strings.Contains(reason, "Insufficient example.com/gpu") {
					waiting <- j
					return
				}
			}
		}()
	}
	third := <-waiting
	require.Empty(t, third.Host())
	first := one
	if first == third {
		first = two
	}
	require.NoError(t, first.Remove(soon(t)))
	require.Eventually(t, func() bool { return third.Host() != "" }, patience, 100*time.Millisecond, "the GPU that is free goes to it")
}

// When a job that ignores signals is reported gone, its process is gone, and not
// only its pod.
func TestAKilledProcessIsGone(t *testing.T) {
	needCluster(t)
	b := newBackend(t, options())
	for name, signals := range map[string][]backend.Signal{
		"killed":                {backend.Kill},
		"terminated and killed": {backend.Terminate, backend.Kill},
		"removed":               {},
	} {
		t.Run(name, func(t *testing.T) {
			spec := job("ignore")
			mark := "FIBER_TEST_MARK=" + rand.Text()
			spec.Public = []string{mark}
			j := launch(t, b, spec)
			logs, err := j.Logs(soon(t), true)
			require.NoError(t, err)
			_, err = bufio.NewReader(logs).ReadString('\n') // "up"
			require.NoError(t, err)
			require.NoError(t, logs.Close())
			if !there(mark) {
				t.Skip("the node is another machine")
			}
			for _, s := range signals {
				require.NoError(t, j.Signal(soon(t), s))
			}
			if len(signals) == 0 {
				require.NoError(t, j.Remove(soon(t)))
			}
			status, err := j.Wait(soon(t))
			require.NoError(t, err)
			require.Equal(t, 137, status.Code)
			require.False(t, there(mark), "the process lives on")
		})
	}
}

// there reports whether a process of this machine has a variable in its
// environment.
func there(variable string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), variable) {
			return true
		}
	}
	return false
}
