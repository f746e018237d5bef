//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/fibertest"
)

// These tests need a real cluster: make test-kubernetes.

// onCluster is a test's own namespace, with the permissions of deploy/rbac.yaml. Nothing may be left in it.
type onCluster struct {
	*testing.T
	namespace, dir string
	admin, env     []string // the environments of kubectl and of the command
	bin            string
}

// installed builds the command itself, which pods of fiber cp run.
var installed = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(binDir, "fiber")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return bin, err
})

func newOnCluster(t *testing.T) *onCluster {
	t.Helper()
	t.Parallel()
	return newAlone(t)
}

// newAlone is newOnCluster for a test that others would notice.
func newAlone(t *testing.T) *onCluster {
	t.Helper()
	if os.Getenv("FIBER_TEST_KUBECONFIG") == "" {
		t.Skip("needs a cluster: make test-kubernetes")
	}
	bin, err := installed()
	require.NoError(t, err)
	c := &onCluster{T: t, namespace: fibertest.Namespace(t), dir: t.TempDir(), bin: bin}
	c.env = append(os.Environ(), "KUBECONFIG="+os.Getenv("FIBER_TEST_KUBECONFIG"), "FIBER_REGISTRY="+os.Getenv("FIBER_TEST_REGISTRY"),
		"FIBER_KUBERNETES_NAMESPACE="+c.namespace, "XDG_RUNTIME_DIR="+t.TempDir())
	c.admin = c.env
	c.kubectl("apply", "-n", c.namespace, "-f", "../../deploy/rbac.yaml")
	write(t, filepath.Join(c.dir, "main.go"), program)
	return c
}

// restrict makes the namespace reject pods that may do more than the strictest of the Pod Security Standards allows.
func (c *onCluster) restrict() {
	c.kubectl("label", "namespace", c.namespace, "pod-security.kubernetes.io/enforce=restricted")
}

// program prints its arguments, on both outputs, and does what they say.
const program = `package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	s := make(chan os.Signal, 1)
	if os.Args[1] == "wait" {
		signal.Notify(s, syscall.SIGTERM)
	}
	fmt.Println("out", os.Args[1:], os.Getenv("A"))
	fmt.Fprintln(os.Stderr, "err")
	switch os.Args[1] {
	case "exit":
		os.Exit(7)
	case "wait":
		select {
		case <-s:
			fmt.Println("told")
			os.Exit(5)
		case <-time.After(time.Hour):
		}
	case "sleep":
		time.Sleep(time.Hour)
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 16<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
		}
	}
}
`

func (c *onCluster) kubectl(args ...string) string {
	c.Helper()
	cmd := exec.Command("kubectl", args...)
	cmd.Env = c.admin
	out, err := cmd.CombinedOutput()
	require.NoError(c, err, "kubectl %v: %s", args, out)
	return string(out)
}

func (c *onCluster) start(args ...string) (cmd *exec.Cmd, stdout, stderr *strings.Builder) {
	c.Helper()
	cmd = exec.Command(c.bin, args...)
	stdout, stderr = new(strings.Builder), new(strings.Builder)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, stdout, stderr
	require.NoError(c, cmd.Start())
	return cmd, stdout, stderr
}

func (c *onCluster) fiber(args ...string) (stdout, stderr string, code int) {
	c.Helper()
	cmd, out, errs := c.start(args...)
	_ = cmd.Wait() // the exit code says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (c *onCluster) pods() string {
	return strings.TrimSpace(c.kubectl("get", "pods", "-n", c.namespace, "--no-headers", "--ignore-not-found", "-o", "name"))
}

// empty waits until nothing is left: a deleted pod takes a moment to go.
func (c *onCluster) empty() {
	c.Helper()
	require.Eventually(c, func() bool { return c.pods() == "" }, 4*time.Minute, 200*time.Millisecond, "pods are left")
}

func TestRunOnACluster(t *testing.T) {
	c := newOnCluster(t)
	out, stderr, code := c.fiber("run", "-a", "-e", "A=b", "main.go", "exit", "$(A)")
	assert.Equal(t, 7, code, stderr)
	assertBoth(t, "out [exit $(A)] b", out)
	assert.Regexp(t, `(?m)^Created pod: fiber-main-\w+$`, stderr)
	c.empty()

	_, stderr, code = c.fiber("run", "-a", "main.go", "exit")
	assert.Equal(t, 7, code)
	assert.NotContains(t, stderr, "pushing", "it is there already")

	_, stderr, code = c.fiber("run", "-a", "--memory", "64MiB", "main.go", "eat")
	assert.Equal(t, 137, code)
	assert.Contains(t, stderr, ": used more than its 64 MiB (OOMKilled)")
	c.empty()
}

// token returns a token of a service account.
func (c *onCluster) token(account string) string {
	c.Helper()
	return strings.TrimSpace(c.kubectl("create", "token", account, "-n", c.namespace))
}

// as makes all that follows run as the user of a token.
func (c *onCluster) as(token string) {
	c.Helper()
	file := filepath.Join(c.dir, "config")
	write(c.T, file, c.kubectl("config", "view", "--raw"))
	c.kubectl("--kubeconfig", file, "config", "set-credentials", "test", "--token", token)
	c.kubectl("--kubeconfig", file, "config", "set-context", "--current", "--user", "test")
	c.env = append(c.env, "KUBECONFIG="+file)
}

// assertBoth checks the log of a program without Fiber: both outputs as one, in the order in which the node read them.
func assertBoth(t *testing.T, stdout, log string) {
	t.Helper()
	assert.ElementsMatch(t, []string{stdout, "err", ""}, strings.Split(log, "\n"))
}

func TestSomebodyElseDeletesTheProgram(t *testing.T) {
	c := newOnCluster(t)
	cmd, out, stderr := c.start("run", "-a", "--name", "mine", "main.go", "wait")
	require.Eventually(t, func() bool {
		log, _, _ := c.fiber("logs", "mine")
		return strings.Contains(log, "out")
	}, 4*time.Minute, 100*time.Millisecond)
	c.kubectl("delete", "pod", "mine", "-n", c.namespace, "--wait=false")
	_ = cmd.Wait() // the exit code says it
	assert.Equal(t, 5, cmd.ProcessState.ExitCode(), "%s%s", out, stderr)
	assert.Contains(t, stderr.String(), "mine: it was told to end, because its pod was deleted")
	c.empty()
}

func TestLookingAfterPrograms(t *testing.T) {
	c := newOnCluster(t)
	out, stderr, code := c.fiber("run", "--name", "mine", "main.go", "wait")
	require.Zero(t, code, stderr)
	assert.Equal(t, "Created pod: mine\n", out)
	out, _, _ = c.fiber("ps")
	assert.Regexp(t, `(?m)^mine +main +running +0 `, out)
	require.Eventually(t, func() bool {
		out, _, _ = c.fiber("logs", "main")
		return strings.Contains(out, "out [wait]")
	}, 4*time.Minute, 100*time.Millisecond)

	_, stderr, code = c.fiber("run", "--name", "mine", "main.go", "wait")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "there is a pod mine in the namespace "+c.namespace+" already: fiber stop mine removes it")

	out, stderr, code = c.fiber("stop", "mine")
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Stopped mine\n", out)
	c.empty()
	_, stderr, code = c.fiber("stop", "mine")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "there is no program mine")

	_, stderr, code = c.fiber("run", "--name", "over", "main.go", "exit")
	require.Zero(t, code, stderr)
	out, _, code = c.fiber("logs", "-f", "over")
	assert.Zero(t, code)
	assertBoth(t, "out [exit] ", out)
	// A command that its image does not have.
	_, stderr, code = c.fiber("run", "-a", "--image", c.kubectl("get", "pod", "over", "-n", c.namespace, "-o", "jsonpath={.spec.containers[0].image}"), "nosuch")
	assert.Equal(t, 127, code)
	assert.Contains(t, stderr, `exec: "nosuch": executable file not found`)
	out, _, _ = c.fiber("clean")
	assert.Equal(t, "pod over\n", out)
	c.empty()
}

// A program that is stopped at once takes its pods along before the command ends.
func TestStopNow(t *testing.T) {
	c := newOnCluster(t)
	c.dir = "../.."
	_, stderr, code := c.fiber("run", "--no-attach", "--name", "many", "./examples/async_manager", "-environments", "3", "-steps", "1000000000")
	require.Zero(t, code, stderr)
	require.Eventually(t, func() bool {
		return strings.Count(c.kubectl("get", "pods", "-n", c.namespace, "--field-selector=status.phase=Running", "-o", "name"), "pod/") == 4
	}, 4*time.Minute, 100*time.Millisecond)
	out, stderr, code := c.fiber("stop", "--now", "many")
	left := c.pods()
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Stopped many\n", out)
	assert.Empty(t, left)
}

// What is wrong with a pod template is said with its name and the setting's, whoever makes the pod.
func TestPodTemplates(t *testing.T) {
	c := newOnCluster(t)
	pi := filepath.Join(c.dir, "pi")
	build := exec.Command("go", "build", "-o", pi, "../../examples/pi")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	file := filepath.Join(c.dir, "pod.yaml")
	host := os.Getenv("FIBER_TEST_HOST")
	for _, test := range []struct {
		template string
		says     []string // nothing if it works
		inside   bool     // what is wrong shows in the root's pod alone
	}{
		{"metadata: {namespace: other}", []string{file + " (FIBER_POD_TEMPLATE) is for the namespace other, but pods are made in " + c.namespace,
			"set FIBER_KUBERNETES_NAMESPACE=other"}, false},
		{"metadata: {namespace: " + c.namespace + "}", nil, false},
		{"spec: {hostname: another}", nil, false},
		{"spec: {containers: [{volumeMounts: [{name: none, mountPath: /x}]}]}", []string{"none", "the pod template " + file + " (FIBER_POD_TEMPLATE)"}, false},
		{"spec: {containers: [{securityContext: {readOnlyRootFilesystem: true}}]}", []string{`runtime_dir = "/tmp"`, "in a pod, mount an emptyDir there"}, true},
		{`spec: {containers: [{securityContext: {readOnlyRootFilesystem: true}, volumeMounts: [{name: tmp, mountPath: /tmp}]}],
			volumes: [{name: tmp, emptyDir: {}}]}`, nil, false},
	} {
		write(t, file, test.template)
		for root, env := range map[string][]string{"moved": nil, "here": {"FIBER_HOST=" + host}} {
			cmd := exec.Command(pi, "-samples", "1000", "-workers", "1")
			cmd.Env = append(append(c.env, "FIBER_BACKEND=kubernetes", "FIBER_POD_TEMPLATE="+file), env...)
			out, _ := cmd.CombinedOutput() // the exit code says it
			if test.says == nil || test.inside && root == "here" {
				assert.Zero(t, cmd.ProcessState.ExitCode(), "%s, %s: %s", test.template, root, out)
				assert.Contains(t, string(out), "Pi is roughly ")
				continue
			}
			assert.Equal(t, 1, cmd.ProcessState.ExitCode(), "%s, %s: %s", test.template, root, out)
			for _, text := range test.says {
				assert.Contains(t, string(out), text, "%s, %s", test.template, root)
			}
		}
	}
	c.empty()
}

func TestWhatCanNotRunOnACluster(t *testing.T) {
	c := newOnCluster(t)
	registry := os.Getenv("FIBER_TEST_REGISTRY")
	for want, args := range map[string][]string{
		`the cluster has no namespace "nosuch"`:                     {"run", "-a", "-n", "nosuch", "main.go", "exit"},
		`no namespace "none": kubectl create namespace none makes`:  {"ps", "-n", "none"},
		`the cluster has no namespace "gone"`:                       {"cp", "-n", "gone", "main.go", "data:"},
		`the cluster has no namespace "lost"`:                       {"stop", "-n", "lost", "x"},
		"the namespace has no claim nope":                           {"run", "-a", "-v", "nope", "main.go", "exit"},
		"ErrImagePull: " + registry + "/no:1: not found":            {"run", "-a", "--image", registry + "/no:1", "x"},
		"InvalidImageName":                                          {"run", "-a", "--image", "NOT/an image", "x"},
		"Insufficient cpu. No node can hold it: the largest node, ": {"run", "-a", "--cpu", "4000", "main.go", "exit"},
		"has no claim nope":                                         {"cp", "main.go", "nope:"},
		"there is no program nope in the namespace " + c.namespace:  {"logs", "nope"},
	} {
		_, stderr, code := c.fiber(args...)
		assert.NotZero(t, code, args)
		assert.Contains(t, stderr, want, args)
		c.empty()
	}
}

func TestWhoMayNot(t *testing.T) {
	c := newOnCluster(t)
	c.kubectl("create", "serviceaccount", "nobody", "-n", c.namespace)
	c.as(c.token("nobody"))
	_, stderr, code := c.fiber("run", "-a", "main.go", "exit")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "no permission to create pods in the namespace "+c.namespace+": kubectl apply -n "+c.namespace+" -f deploy/rbac.yaml")
	out, _, code := c.fiber("doctor")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "may not create pods")

	c.as("expired")
	_, stderr, code = c.fiber("run", "-a", "main.go", "exit")
	c.env = c.admin
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "does not accept the credentials of the kubeconfig")
	out, stderr, code = c.fiber("doctor")
	assert.Zero(t, code, out+stderr)
	c.empty()
}

// claim makes the claim data.
func (c *onCluster) claim() {
	volume := c.namespace // volumes belong to no namespace
	manifest := filepath.Join(c.TempDir(), "volume.yaml")
	write(c.T, manifest, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: %[1]s
  hostPath: {path: /tmp/%[1]s, type: DirectoryOrCreate}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: %[1]s, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
`, volume))
	c.kubectl("apply", "-n", c.namespace, "-f", manifest)
	c.Cleanup(func() {
		c.kubectl("delete", "pv", volume, "--wait=false")
		os.RemoveAll("/tmp/" + volume) // if the node is this machine
	})
}

func TestCopyToAndFromAClaim(t *testing.T) {
	c := newOnCluster(t)
	c.claim()
	write(t, filepath.Join(c.dir, "in", "sub", "file"), strings.Repeat("x", 1<<20))
	write(t, filepath.Join(c.dir, "in", "lines"), "a\nb\nc\n")
	here := c.dir
	_, stderr, code := c.fiber("cp", "in", "data:")
	require.Zero(t, code, stderr)
	c.empty()
	_, stderr, code = c.fiber("cp", "data:in/sub", "out")
	require.Zero(t, code, stderr)
	b, err := os.ReadFile(filepath.Join(c.dir, "out", "file"))
	require.NoError(t, err)
	assert.Len(t, b, 1<<20)
	// A program has the claim, and its child processes get it from there: they read the files.
	c.dir = "../.."
	out, stderr, code := c.fiber("run", "-a", "-v", "data", "./examples/line_count", "-workers", "2", "/persistent/in/lines")
	assert.Zero(t, code, stderr)
	assert.Regexp(t, `^\s*3 /persistent/in/lines\n`, out)
	c.dir = here
	_, stderr, code = c.fiber("cp", "data:nope", "out")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "the claim data has no nope")
	_, stderr, code = c.fiber("cp", "--image", os.Getenv("FIBER_TEST_REGISTRY")+"/no:1", "in", "data:")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "/no:1: not found; --image names another image with sh and tar")
	c.empty()

	// A folder does not replace a file, nor a file a folder, however much there is to come.
	write(t, filepath.Join(c.dir, "large", "file"), strings.Repeat("x", 20<<20))
	write(t, filepath.Join(c.dir, "taken"), "")
	_, stderr, code = c.fiber("cp", "large/file", "data:taken")
	require.Zero(t, code, stderr)
	assert.Contains(t, stderr, "copied 20 MiB to data:taken")
	write(t, filepath.Join(c.dir, "lines", "x"), "")
	write(t, filepath.Join(c.dir, "large", "in"), "")
	for want, args := range map[string][2]string{
		"data:taken is a file: a folder does not replace it": {"large", "data:taken"},
		"data:in is a folder: a file does not replace it":    {"large/in", "data:"},
		"taken is a file: a folder does not replace it":      {"data:in", "taken"},
		"lines is a folder: a file does not replace it":      {"data:in/lines", "."},
	} {
		_, stderr, code = c.fiber("cp", args[0], args[1])
		assert.Equal(t, 1, code)
		assert.Equal(t, "fiber: "+want+"\n", stderr, args)
	}
	c.empty()

	// Nothing is left of an interrupted copy either.
	cmd, _, errs := c.start("cp", "in", "data:again")
	require.Eventually(t, func() bool { return c.pods() != "" }, 4*time.Minute, 20*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // the exit code says it
	assert.Equal(t, 130, cmd.ProcessState.ExitCode(), errs)
	c.empty()
}

func TestMainGoesToTheCluster(t *testing.T) {
	c := newOnCluster(t)
	c.restrict()
	pi := filepath.Join(c.dir, "pi")
	build := exec.Command("go", "build", "-o", pi, "../../examples/pi")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	run := func(args ...string) (string, string, int) {
		cmd := exec.Command(pi, args...)
		var stdout, stderr strings.Builder
		cmd.Env, cmd.Stdout, cmd.Stderr = append(c.env, "FIBER_BACKEND=kubernetes"), &stdout, &stderr
		_ = cmd.Run() // the exit code says it
		return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
	stdout, stderr, code := run("-samples", "10000", "-workers", "1")
	assert.Zero(t, code, stderr)
	assert.Regexp(t, `^Pi is roughly 3\.\d+\n$`, stdout)
	assert.Regexp(t, `(?m)^Created pod: fiber-pi-\w+$`, stderr)
	stdout, stderr, code = run("-samples", "0")
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout, "an error is written to stderr there, and comes on stderr here")
	assert.Contains(t, stderr, "-samples 0: it must be")
	c.empty()
}

// The examples print on a cluster what they print on one machine. At most two
// processes want a CPU at a time, so two CPUs are enough.
func TestExamplesOnACluster(t *testing.T) {
	c := newOnCluster(t)
	c.restrict()
	c.dir = "../.."
	for _, test := range []struct{ example, flags, prints string }{
		{"pi", "-samples 200000 -workers 2", `^Pi is roughly 3\.1\d*\n$`},
		{"async_manager", "-environments 2 -steps 200", `^200 steps in each of 2 environments
Call       \d+\.\d{3} s  \d+ episodes
CallAsync  \d+\.\d{3} s  \d+ episodes
\d+\.\d times as fast\n$`},
		{"ring_sgd", "-ranks 2 -epochs 5", `^1 process: loss 0\.\d{12}, 9\d\.\d% of 359 held-out digits right
2 ranks:   loss 0\.\d{12}, 9\d\.\d% of 359 held-out digits right\n$`},
	} {
		out, stderr, code := c.fiber(append([]string{"run", "-a", "./examples/" + test.example}, strings.Fields(test.flags)...)...)
		assert.Zero(t, code, "%s: %s", test.example, stderr)
		assert.Regexp(t, test.prints, out, stderr)
		c.empty()
	}
}
