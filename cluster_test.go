//go:build unix

package fiber_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/meta"
)

// Programs on the kubernetes backend, where FIBER_TEST_KUBECONFIG names a
// cluster. What they do on all backends is in the other tests, by
// FIBER_TEST_BACKEND=kubernetes.

const (
	kubeconfigKey = "FIBER_TEST_KUBECONFIG"
	hostKey       = "FIBER_TEST_HOST"     // where the cluster's pods reach this machine
	registryKey   = "FIBER_TEST_REGISTRY" // where it pulls images from
	clusterKey    = "CLUSTER_STATE"       // of test/cluster, where the cluster is that
)

func testRegistry() string {
	if r := os.Getenv(registryKey); r != "" {
		return r
	}
	return "localhost:5000"
}

// onCluster has programs find the cluster, and pods the tests' files, which
// are on its only node.
func onCluster(files string) {
	template := filepath.Join(files, "pod.yaml")
	text := fmt.Sprintf(`spec:
  containers:
    - env: [{name: TMPDIR, value: %q}]
      volumeMounts: [{name: files, mountPath: %[1]q}]
  volumes: [{name: files, hostPath: {path: %[1]q}}]
`, files)
	if err := os.WriteFile(template, []byte(text), 0o644); err != nil {
		panic(err)
	}
	for _, kv := range append(clusterEnv(), "FIBER_POD_TEMPLATE="+template) {
		key, value, _ := strings.Cut(kv, "=")
		os.Setenv(key, value)
	}
}

// clusterEnv is what a program needs to run on the tests' cluster.
func clusterEnv() []string {
	host := os.Getenv(hostKey)
	if host == "" {
		host = "10.244.0.1"
	}
	return []string{"FIBER_BACKEND=kubernetes", "KUBECONFIG=" + os.Getenv(kubeconfigKey), "FIBER_HOST=" + host,
		"FIBER_REGISTRY=" + testRegistry()}
}

func needCluster(t testing.TB) {
	t.Helper()
	if os.Getenv(kubeconfigKey) == "" {
		t.Skip("no cluster") // TestMain of backend/kubernetes says so once
	}
}

// clustered starts a program whose children are pods.
func clustered(t *testing.T, name string, env ...string) *execution {
	t.Helper()
	needCluster(t)
	return start(t, name, append(clusterEnv(), env...)...)
}

func kubectl(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv(kubeconfigKey))
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

// pods lists those of the program's run.
func (x *execution) pods() (all []somePod) {
	for _, p := range podsIn(x.t, "default") {
		if fields := strings.Fields(p.Metadata.Annotations["fiber.root"]); len(fields) == 4 && fields[2] == strconv.Itoa(x.cmd.Process.Pid) {
			all = append(all, p)
		}
	}
	return all
}

// podFamily starts the program with children of all sorts, in pods.
func podFamily(t *testing.T) *execution {
	x := clustered(t, "family")
	x.says("started")
	eventually(t, patience, func() bool { return len(x.pods()) == 5 }, "5 pods")
	return x
}

func TestPodsAfterTheEnd(t *testing.T) {
	x := clustered(t, "fine")
	require.Equal(t, 0, x.wait(patience))
	require.Equal(t, "squares 100 9801\n", x.out.String())
	require.Empty(t, x.err.String())
	require.Empty(t, x.pods())
}

func TestPodsAfterASignal(t *testing.T) {
	x := podFamily(t)
	x.group(syscall.SIGINT)
	require.Equal(t, 130, x.wait(patience))
	require.Empty(t, x.pods(), "pods are left")
	require.NotContains(t, x.err.String(), "canceled", "a signal is no error to print")
}

// The pods of a root that was killed, and was no pod itself, end, and the
// next run removes them.
func TestPodsOfAKilledRoot(t *testing.T) {
	x := podFamily(t)
	x.root(syscall.SIGKILL)
	eventually(t, patience, func() bool {
		return !slices.ContainsFunc(x.pods(), func(p somePod) bool { return p.Status.Phase == "Running" || p.Status.Phase == "Pending" })
	}, "pods live on")
	require.Zero(t, clustered(t, "fine").wait(patience))
	eventually(t, patience, func() bool { return len(x.pods()) == 0 }, "pods are left")
}

func TestOutputOfPods(t *testing.T) {
	x := clustered(t, "talkative", prefixKey+"=on")
	require.Zero(t, x.wait(patience))
	require.Equal(t, "Process-1 | from stdout\nkept 24\n", x.out.String())
	require.Equal(t, "Process-1 | from stderr\n", x.err.String())
}

func TestPodsStartPods(t *testing.T) {
	x := clustered(t, "nested ships")
	require.Zero(t, x.wait(2*patience), x.err.String())
	require.Empty(t, x.pods())
}

func TestPodOutOfMemory(t *testing.T) {
	x := clustered(t, "hungry")
	require.Zero(t, x.wait(2*patience), x.err.String())
}

// crowded runs a pool that no node has room for.
var _ = mainProgram("crowded", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2, fiber.WithMeta(meta.CPU(4000)))
	if err != nil {
		return err
	}
	defer pool.Terminate()
	future := fiber.ApplyAsync(ctx, pool, square, 3)
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
	require.Zero(t, x.wait(2*patience), x.err.String())
	require.Contains(t, x.out.String(), "pending [Unschedulable: ")
	require.Contains(t, x.out.String(), "not up after 20s (start_timeout): Unschedulable: ")
	require.Regexp(t, `a process waits to be started.*Insufficient cpu.*No node can hold it: the largest node, \S+, has \S+ CPUs`, x.err.String())
	require.Empty(t, x.pods())
}

const (
	havocTasks   = 2_000
	havocWorkers = 4
	havocMeals   = 5
)

// feast is a task that may be the last of its worker: it takes a meal, where
// there is one left, that is more than the worker's memory.
type feast struct {
	Chore chore
	Table *fiber.SimpleQueue[int]
}

var feasts = fiber.Register("feasts", func(ctx context.Context, f feast) (int, error) {
	if f.Table != nil {
		within, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if mib, err := f.Table.Get(within); err == nil {
			hog.Call(ctx, mib)
		}
	}
	return chores.Call(ctx, f.Chore)
})

// havoc deletes and kills the pods of a pool, and cordons the nodes now and
// then, until it is called off.
func havoc(pool *fiber.Pool, seed uint64, stop <-chan struct{}) (deleted, killed int) {
	r := rand.New(rand.NewPCG(seed, 4))
	nodes := func(what string) {
		out, _ := exec.Command("kubectl", "get", "nodes", "-o", "name").Output()
		for _, node := range strings.Fields(string(out)) {
			exec.Command("kubectl", what, node).Run()
		}
	}
	defer nodes("uncordon")
	for turn := 0; ; turn++ {
		nodes([]string{"uncordon", "uncordon", "cordon"}[turn%3])
		select {
		case <-stop:
			return deleted, killed
		case <-time.After(time.Duration(1000+r.IntN(2000)) * time.Millisecond):
		}
		workers := pool.Stats().Processes
		if len(workers) == 0 {
			continue
		}
		id := workers[r.IntN(len(workers))].ID
		args := [][]string{{"--grace-period=0", "--force"}, {"--grace-period=1"}}[r.IntN(2)]
		if r.IntN(2) == 0 && killPod(id) {
			killed++
		} else if exec.Command("kubectl", append([]string{"delete", "pod", id, "--wait=false"}, args...)...).Run() == nil {
			deleted++
		}
	}
}

// killPod sends a SIGKILL to a pod's program, where its node is this machine.
func killPod(name string) bool {
	uid, err := exec.Command("kubectl", "get", "pod", name, "-o", "jsonpath={.metadata.uid}").Output()
	if err != nil || len(uid) == 0 {
		return false
	}
	self, _ := os.Readlink("/proc/self/exe")
	for _, pid := range pids() {
		group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || !strings.Contains(string(group), string(uid)) {
			continue
		}
		if exe := commandOf(pid); strings.Contains(exe, "program") && exe != self {
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	return false
}

var _ = mainProgram("havoc", func(ctx context.Context) error {
	seed := chaosSeed()
	pool, err := fiber.NewPool(havocWorkers, fiber.WithMaxAttempts(20), fiber.WithMeta(meta.Memory(150)))
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := fiber.NewSimpleQueue[int]()
	if err != nil {
		return err
	}
	if err := table.PutMany(ctx, slicesOf(2000, havocMeals)); err != nil {
		return err
	}
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	stop, deleted, killed := make(chan struct{}), 0, 0
	var raging sync.WaitGroup
	raging.Go(func() { deleted, killed = havoc(pool, seed, stop) })
	ins := make([]feast, havocTasks)
	for i, c := range choresFrom(seed)[:havocTasks] {
		c.Micros *= 20
		ins[i] = feast{Chore: c}
		if i%100 == 50 {
			ins[i].Table = table
		}
	}
	outs, err := fiber.Map(ctx, pool, feasts, ins)
	close(stop)
	raging.Wait()
	if err != nil {
		return err
	}
	for i, out := range outs {
		if out != i*7+1 {
			return fmt.Errorf("task %d gave %d", i, out)
		}
	}
	if len(outs) != len(ins) || deleted+killed == 0 {
		return fmt.Errorf("%d results of %d, %d pods deleted, %d killed", len(outs), len(ins), deleted, killed)
	}
	fmt.Println("held,", deleted, "deleted,", killed, "killed, lost", pool.Stats().WorkersLost)
	return nil
})

func TestChaosOfPods(t *testing.T) {
	needCluster(t)
	seed := os.Getenv(seedKey)
	if seed == "" {
		seed = strconv.Itoa(rand.IntN(1_000_000))
	}
	t.Log(seedKey + "=" + seed)
	t.Cleanup(func() {
		for _, node := range strings.Fields(kubectl(t, "get", "nodes", "-o", "name")) {
			kubectl(t, "uncordon", node)
		}
	})
	x := clustered(t, "havoc", argKey+"="+seed)
	require.Zero(t, x.wait(5*time.Minute), x.err.String())
	require.Contains(t, x.out.String(), "held")
	require.Contains(t, x.err.String(), "OOMKilled")
	require.Empty(t, x.pods())
	t.Log(x.out.String())
}

// steady runs tasks, with a new worker for every 25 of them, for as long as
// the API server is away and longer.
var _ = mainProgram("steady", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	ins := make([]time.Duration, 500)
	for i := range ins {
		ins[i] = 100 * time.Millisecond
	}
	done := 0
	_, err = fiber.Map(ctx, pool, nap, ins, fiber.ChunkSize(1), fiber.OnProgress(func(n, _ int) {
		for ; done+50 <= n; done += 50 {
			fmt.Println("done", done+50)
		}
	}))
	if err != nil {
		return err
	}
	fmt.Println("lost", pool.Stats().WorkersLost, "started", pool.Stats().WorkersStarted)
	// The watch goes on: a worker that dies is heard of, and another one comes.
	if _, err := fiber.Apply(ctx, pool, die, int(syscall.SIGKILL)); err == nil {
		return errors.New("a worker has survived")
	}
	_, err = fiber.Apply(ctx, pool, square, 3)
	return err
})

func TestAPIServerIsAway(t *testing.T) {
	needCluster(t)
	pid := apiServer(t)
	x := clustered(t, "steady")
	x.says("up")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	resume := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	t.Cleanup(resume)
	time.Sleep(20 * time.Second) // that is what is shown
	x.says("done 200")           // running work goes on
	resume()
	require.Zero(t, x.wait(3*patience), x.err.String())
	require.Contains(t, x.out.String(), "lost 0 started 2\n")
	require.Empty(t, x.pods())
}

// Pods that are wanted while the API server is away are made once, when it is
// back.
func TestStartsWhileTheAPIServerIsAway(t *testing.T) {
	needCluster(t)
	pid := apiServer(t)
	x := clustered(t, "growing")
	x.says("up")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	resume := sync.OnceFunc(func() { syscall.Kill(pid, syscall.SIGCONT) })
	t.Cleanup(resume)
	require.NoError(t, x.cmd.Process.Signal(syscall.SIGUSR1))
	x.says("growing")
	time.Sleep(20 * time.Second)
	resume()
	x.says("grown")
	require.Len(t, x.pods(), 4, "nothing is started twice")
	require.NoError(t, x.cmd.Process.Signal(syscall.SIGUSR1))
	require.Zero(t, x.wait(patience), x.err.String())
	require.Empty(t, x.pods())
}

var _ = mainProgram("growing", func(ctx context.Context) error {
	signals := signalled(syscall.SIGUSR1)
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	<-signals
	fmt.Println("growing")
	if err := pool.Resize(ctx, 4); err != nil {
		return err
	}
	fmt.Println("grown")
	<-signals
	return nil
})

// apiServer is the process id of the cluster's, which is one of test/cluster.
func apiServer(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv(clusterKey), "pid/kube-apiserver"))
	if err != nil {
		t.Skip("the cluster's API server is not of test/cluster")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
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
	namespace = fmt.Sprintf("fiber-test-%x", time.Now().UnixNano())
	kubectl(t, "create", "namespace", namespace)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("kubectl", "-n", namespace, "get", "pods", "-o", "wide").CombinedOutput()
			t.Logf("%s\n%s", out, logsOf(namespace, "root"))
		}
		kubectl(t, "delete", "namespace", namespace, "--wait=false")
	})
	kubectl(t, "apply", "-n", namespace, "-f", "deploy/rbac.yaml")
	return namespace
}

// runPod runs a program in a pod.
func runPod(t *testing.T, namespace, name, program string, spec map[string]any, env ...string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"spec": spec})
	require.NoError(t, err)
	args := []string{"run", name, "-n", namespace, "--image=" + pushed(t), "--restart=Never", "--overrides=" + string(text)}
	for _, kv := range append(env, programKey+"="+program) {
		args = append(args, "--env="+kv)
	}
	kubectl(t, args...)
}

// pushed is the image of this test binary, which the cluster can pull.
func pushed(t testing.TB) string {
	t.Helper()
	img, err := image.New(image.Options{Platform: thisPlatform(t)})
	require.NoError(t, err)
	ref, err := img.Push(soon(t), testRegistry())
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
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.Getenv(kubeconfigKey))
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
	eventually(t, 3*patience, func() bool {
		phase = kubectl(t, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.status.phase}")
		return phase == "Succeeded" || phase == "Failed"
	}, "it does not end")
	require.Equal(t, "Succeeded", phase, logsOf(namespace, pod))
}

// The pods of a root that is deleted go with it.
func TestPodsOfADeletedRoot(t *testing.T) {
	namespace := inPod(t, "family")
	eventually(t, 2*patience, func() bool { return strings.Contains(logsOf(namespace, "root"), "started") }, "it does not start")
	require.Len(t, podsIn(t, namespace), 6)
	kubectl(t, "delete", "pod", "-n", namespace, "root", "--grace-period=0", "--force")
	eventually(t, patience, func() bool { return len(podsIn(t, namespace)) == 0 }, "pods are left")
	eventually(t, patience, func() bool {
		return !strings.Contains(kubectl(t, "get", "secrets", "-n", namespace, "-o", "name"), "fiber-")
	}, "a secret is left")
}

func signalled(sig os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, sig)
	return c
}

// What one process writes to a claim another one reads.
var (
	keep = fiber.Register("keep", func(_ context.Context, text string) (none, error) {
		return none{}, os.WriteFile("/persistent/kept", []byte(text), 0o644)
	})
	onClaim = fiber.Register("onClaim", func(context.Context, none) (string, error) {
		text, err := os.ReadFile("/persistent/kept")
		return string(text), err
	})
)

var _ = mainProgram("keeper", func(ctx context.Context) error {
	pool, err := fiber.NewPool(1, fiber.WithMaxTasksPerChild(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := fiber.Apply(ctx, pool, keep, "for later"); err != nil {
		return err
	}
	text, err := fiber.Apply(ctx, pool, onClaim, none{})
	fmt.Println(text)
	return err
})

func TestPodsShareAClaim(t *testing.T) {
	needCluster(t)
	apiServer(t) // its node is this machine
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o777)) // pods are another user
	name := fmt.Sprintf("fiber-test-%x", time.Now().UnixNano())
	file := tempFile(t)
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
	require.Zero(t, x.wait(2*patience), x.err.String())
	require.Equal(t, "for later\n", x.out.String())
}
