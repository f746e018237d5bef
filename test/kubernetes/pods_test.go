//go:build unix

package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
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

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// Programs on the kubernetes backend, where FIBER_TEST_KUBECONFIG names a
// cluster. What they do on all backends is in the other tests, by
// FIBER_TEST_BACKEND=kubernetes.

func needCluster(t testing.TB) {
	t.Helper()
	if os.Getenv(fibertest.KubeconfigKey) == "" {
		t.Skip("no cluster") // TestMain of backend/kubernetes says so once
	}
}

// clustered starts a program whose children are pods.
func clustered(t *testing.T, name string, env ...string) *fibertest.Execution {
	t.Helper()
	needCluster(t)
	return fibertest.Start(t, name, append(fibertest.ClusterEnv(), env...)...)
}

func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv(fibertest.KubeconfigKey))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "kubectl %v: %s", args, errs.String())
	return string(out)
}

// somePod is what the tests look at of a pod.
type somePod struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Status struct{ Phase string }
}

func podsIn(t testing.TB, namespace string) []somePod {
	t.Helper()
	var list struct{ Items []somePod }
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "get", "pods", "-n", namespace, "-o", "json")), &list))
	return list.Items
}

// podsOf lists those of a program's run.
func podsOf(t testing.TB, x *fibertest.Execution) (all []somePod) {
	t.Helper()
	for _, p := range podsIn(t, "default") {
		if fields := strings.Fields(p.Metadata.Annotations["fiber.root"]); len(fields) == 4 && fields[2] == strconv.Itoa(x.Cmd.Process.Pid) {
			all = append(all, p)
		}
	}
	return all
}

// podFamily starts the program with children of all sorts, in pods.
func podFamily(t *testing.T) *fibertest.Execution {
	x := clustered(t, "family")
	x.Says("started")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(podsOf(t, x)) == 5 }, "5 pods")
	return x
}

func TestPodsAfterTheEnd(t *testing.T) {
	x := clustered(t, "fine")
	require.Equal(t, 0, x.Wait(fibertest.Patience))
	require.Equal(t, "squares 100 9801\n", x.Out.String())
	require.Empty(t, x.Err.String())
	require.Empty(t, podsOf(t, x))
}

func TestPodsAfterASignal(t *testing.T) {
	x := podFamily(t)
	x.SignalGroup(syscall.SIGINT)
	require.Equal(t, 130, x.Wait(fibertest.Patience))
	require.Empty(t, podsOf(t, x), "pods are left")
	require.NotContains(t, x.Err.String(), "canceled", "a signal is no error to print")
}

// The pods of a root that was killed, and was no pod itself, end, and the
// next run removes them.
func TestPodsOfAKilledRoot(t *testing.T) {
	x := podFamily(t)
	x.SignalRoot(syscall.SIGKILL)
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		return !slices.ContainsFunc(podsOf(t, x), func(p somePod) bool { return p.Status.Phase == "Running" || p.Status.Phase == "Pending" })
	}, "pods live on")
	require.Zero(t, clustered(t, "fine").Wait(fibertest.Patience))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(podsOf(t, x)) == 0 }, "pods are left")
}

func TestOutputOfPods(t *testing.T) {
	x := clustered(t, "talkative", fibertest.PrefixKey+"=on")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Equal(t, "Process-1 | from stdout\nkept 24\n", x.Out.String())
	require.Equal(t, "Process-1 | from stderr\n", x.Err.String())
}

func TestPodsStartPods(t *testing.T) {
	x := clustered(t, "nested ships")
	require.Zero(t, x.Wait(2*fibertest.Patience), x.Err.String())
	require.Empty(t, podsOf(t, x))
}

func TestPodOutOfMemory(t *testing.T) {
	x := clustered(t, "hungry")
	require.Zero(t, x.Wait(2*fibertest.Patience), x.Err.String())
}

// crowded runs a pool that no node has room for.
var _ = fibertest.MainProgram("crowded", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2, fiber.WithMeta(meta.CPU(4000)))
	if err != nil {
		return err
	}
	defer pool.Terminate()
	future := fiber.ApplyAsync(ctx, pool, fibertest.Square, 3)
	for len(pool.Stats().Pending) == 0 {
		if future.Ready() {
			return errors.New("nothing is said of why the pool waits")
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("pending", pool.Stats().Pending)
	_, err = future.Get(ctx)
	var launch *fiber.LaunchError
	if !errors.As(err, &launch) {
		return fmt.Errorf("no LaunchError: %w", err)
	}
	fmt.Println(err)
	return nil
})

func TestPodsThatNoNodeHasRoomFor(t *testing.T) {
	x := clustered(t, "crowded", "FIBER_START_TIMEOUT=20s")
	require.Zero(t, x.Wait(2*fibertest.Patience), x.Err.String())
	require.Contains(t, x.Out.String(), "pending [Unschedulable: ")
	require.Contains(t, x.Out.String(), "not up after 20s (start_timeout): Unschedulable: ")
	require.Regexp(t, `a process waits to be started.*Insufficient cpu.*No node can hold it: the largest node, \S+, has \S+ CPUs`, x.Err.String())
	require.Empty(t, podsOf(t, x))
}

// inPod runs a program in a pod of its own namespace.
func inPod(t *testing.T, program string, env ...string) (namespace string) {
	t.Helper()
	namespace = newNamespace(t)
	runPod(t, namespace, "root", program, map[string]any{"serviceAccountName": "fiber"}, env...)
	return namespace
}

// newNamespace makes a namespace with deploy/rbac.yaml and nothing else.
func newNamespace(t *testing.T) (namespace string) {
	t.Helper()
	needCluster(t)
	namespace = fibertest.Namespace(t)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("kubectl", "-n", namespace, "get", "pods", "-o", "wide").CombinedOutput()
			t.Logf("%s\n%s", out, logsOf(namespace, "root"))
		}
	})
	kubectl(t, "apply", "-n", namespace, "-f", "../../deploy/rbac.yaml")
	return namespace
}

// runPod runs a program in a pod.
func runPod(t *testing.T, namespace, name, program string, spec map[string]any, env ...string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"spec": spec})
	require.NoError(t, err)
	args := []string{"run", name, "-n", namespace, "--image=" + pushed(t), "--restart=Never", "--overrides=" + string(text)}
	for _, kv := range append(env, "FIBER_ENV=*", fibertest.ProgramKey+"="+program) {
		args = append(args, "--env="+kv)
	}
	kubectl(t, args...)
}

// pushed is the image of this test binary, which the cluster can pull.
func pushed(t testing.TB) string {
	t.Helper()
	img, err := image.New(image.Options{Platform: thisPlatform(t)})
	require.NoError(t, err)
	ref, err := img.Push(fibertest.Soon(t), fibertest.Registry(), image.Pushing{})
	image.CloseIdle()
	require.NoError(t, err)
	return ref
}

func thisPlatform(t testing.TB) image.Platform {
	p, err := image.PlatformOf("")
	require.NoError(t, err)
	return p
}

func logsOf(namespace, pod string) string {
	cmd := exec.Command("kubectl", "logs", "-n", namespace, pod)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv(fibertest.KubeconfigKey))
	out, _ := cmd.Output()
	return string(out)
}

func TestARootInAPod(t *testing.T) {
	namespace := inPod(t, "fine")
	endsWell(t, namespace, "root")
	require.Len(t, podsIn(t, namespace), 1)
	require.Equal(t, "squares 100 9801\n", logsOf(namespace, "root"))
	require.NotContains(t, kubectl(t, "get", "secrets", "-n", namespace, "-o", "name"), "fiber-")
}

// endsWell waits until a pod has ended, with 0.
func endsWell(t *testing.T, namespace, pod string) {
	t.Helper()
	phase := ""
	fibertest.Eventually(t, 3*fibertest.Patience, func() bool {
		phase = kubectl(t, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.status.phase}")
		return phase == "Succeeded" || phase == "Failed"
	}, "it does not end")
	require.Equal(t, "Succeeded", phase, logsOf(namespace, pod))
}

// The pods of a root that is deleted go with it.
func TestPodsOfADeletedRoot(t *testing.T) {
	namespace := inPod(t, "family")
	fibertest.Eventually(t, 2*fibertest.Patience, func() bool { return len(podsIn(t, namespace)) == 6 }, "6 pods")
	kubectl(t, "delete", "pod", "-n", namespace, "root", "--grace-period=0", "--force")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(podsIn(t, namespace)) == 0 }, "pods are left")
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		return !strings.Contains(kubectl(t, "get", "secrets", "-n", namespace, "-o", "name"), "fiber-")
	}, "a secret is left")
}

// What one process writes to a claim another one reads.
var (
	keep = fiber.Register("keep", func(_ context.Context, text string) (fibertest.None, error) {
		return fibertest.None{}, os.WriteFile("/persistent/kept", []byte(text), 0o644)
	})
	onClaim = fiber.Register("onClaim", func(context.Context, fibertest.None) (string, error) {
		text, err := os.ReadFile("/persistent/kept")
		return string(text), err
	})
)

var _ = fibertest.MainProgram("keeper", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1, fiber.WithMaxTasksPerChild(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := fiber.Apply(ctx, pool, keep, "for later"); err != nil {
		return err
	}
	text, err := fiber.Apply(ctx, pool, onClaim, fibertest.None{})
	fmt.Println(text)
	return err
})

func TestPodsShareAClaim(t *testing.T) {
	needCluster(t)
	apiServer(t) // its node is this machine
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777)) // pods are another user
	name := fmt.Sprintf("fiber-test-%x", time.Now().UnixNano())
	file := fibertest.TempFile(t)
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: %[1]s, hostPath: {path: %[2]q}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {storageClassName: %[1]s, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
`, name, dir)), 0o644))
	kubectl(t, "apply", "-f", file)
	t.Cleanup(func() { kubectl(t, "delete", "--wait=false", "-f", file) })
	x := clustered(t, "keeper", "FIBER_KUBERNETES_VOLUMES="+name)
	require.Zero(t, x.Wait(2*fibertest.Patience), x.Err.String())
	require.Equal(t, "for later\n", x.Out.String())
}
