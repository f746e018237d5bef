//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counting is a program that counts up to its first argument, two a second, which a worker does. It goes on where it was, notes
// what it begins and counts in files of the claim, and ends as its second argument says.
const counting = `package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/fiber-go/fiber"
)

var next = fiber.Register("next", func(_ context.Context, n int) (int, error) { return n + 1, nil })

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	most, _ := strconv.Atoi(os.Args[1])
	n := 0
	if err := fiber.LoadState("/persistent/state", &n); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	host, _ := os.Hostname()
	fmt.Println("begins with", n)
	pool, err := fiber.NewPool(1)
	if err != nil {
		return err
	}
	defer pool.Close()
	for n < most {
		if n, err = fiber.Apply(ctx, pool, next, n); err != nil {
			return err
		}
		if err := fiber.SaveState("/persistent/state", n); err != nil {
			return err
		}
		file, err := os.OpenFile("/persistent/counts", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return err
		}
		fmt.Fprintln(file, host, time.Now().UnixMilli())
		file.Close()
		fmt.Println(n)
		time.Sleep(500 * time.Millisecond)
	}
	switch os.Args[2] {
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 16<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
		}
	default:
		code, _ := strconv.Atoi(os.Args[2])
		os.Exit(code)
	}
	return nil
}
`

// newRestarts has a claim that several nodes may mount, which the program can write to.
func newRestarts(c *onCluster) *onCluster {
	c.claim()
	c.viewer()
	c.look(nil, "chmod 777 .")
	write(c.T, filepath.Join(c.dir, "count.go"), counting)
	return c
}

// restarting starts the program there, attached.
func (c *onCluster) restarting(args ...string) *following {
	c.Helper()
	file := filepath.Join(c.dir, "count.go")
	c.dir = "../.."
	return c.follow(append([]string{"run", "-a", "--restart", "3", "--name", "mine", "-v", "data", file}, args...)...)
}

// roots lists the pods of roots that are not being deleted.
func (c *onCluster) roots() []string {
	c.Helper()
	return strings.Fields(c.kubectl("get", "pods", "-n", c.namespace, "-l", "fiber.role=root", "-o",
		`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}`))
}

// nothingLeft waits until nothing of a run is left.
func (c *onCluster) nothingLeft() {
	c.Helper()
	left := ""
	assert.Eventually(c, func() bool {
		left = c.kubectl("get", "pods,secrets,jobs,leases", "-n", c.namespace, "-l", "app.kubernetes.io/managed-by=fiber", "-o", "name")
		return left == ""
	}, 4*time.Minute, 200*time.Millisecond)
	assert.Empty(c, left)
}

// whole checks that all numbers have been printed, in order, but for so many that may be lost with a node, and that no two pods have
// counted at a time. It returns when each pod has counted last.
func (c *onCluster) whole(stdout string, most, lost int) (ends []time.Time) {
	c.Helper()
	last := 0
	for _, text := range strings.Fields(strings.ReplaceAll(stdout, "begins with", "")) {
		n := 0
		_, err := fmt.Sscan(text, &n)
		require.NoError(c, err, stdout)
		assert.True(c, last <= n && n <= last+1+lost, "%d after %d:\n%s", n, last, stdout)
		last = n
	}
	assert.Equal(c, most, last, stdout)
	var pods []string
	for line := range strings.Lines(string(c.look(nil, "cat counts"))) {
		var pod string
		var at int64
		_, err := fmt.Sscan(line, &pod, &at)
		require.NoError(c, err)
		if len(pods) == 0 || pods[len(pods)-1] != pod {
			assert.NotContains(c, pods, pod, "two have counted at a time")
			pods, ends = append(pods, pod), append(ends, time.Time{})
		}
		ends[len(ends)-1] = time.UnixMilli(at)
	}
	return ends
}

func TestRestartAfterAPodWasDeleted(t *testing.T) {
	c := newRestarts(newOnCluster(t))
	c.as(c.token("fiber")) // deploy/rbac.yaml is enough
	run := c.restarting("60", "5")
	run.says("\n3\n")
	logs := c.follow("logs", "-f", "mine")
	logs.says("\n3\n")
	first := c.roots()
	require.Len(t, first, 1)
	assert.Contains(t, run.stderr(), "Created job: mine\n")
	c.kubectl("delete", "pod", first[0], "-n", c.namespace, "--wait=false")
	for _, f := range []*following{run, logs} { // what nobody has read of a pod that is removed by force is lost
		require.Eventually(t, func() bool { return strings.Count(f.stdout(), "begins with") == 2 }, 2*time.Minute, 100*time.Millisecond)
	}
	out := ""
	assert.Eventually(t, func() bool { // its worker starts a moment later
		out, _, _ = c.fiber("ps")
		return regexp.MustCompile(`(?m)^mine +count +running +1 `).MatchString(out)
	}, time.Minute, 100*time.Millisecond)
	assert.Equal(t, 1, strings.Count(out, "mine"), out)
	second := c.roots()
	require.Len(t, second, 1)
	c.kubectl("delete", "pod", second[0], "-n", c.namespace, "--force", "--grace-period=0")
	assert.Equal(t, 5, run.code(), run.stderr())
	assert.Zero(t, logs.code(), logs.stderr())
	for _, f := range []*following{run, logs} {
		c.whole(f.stdout(), 60, 1)
		assert.Equal(t, 3, strings.Count(f.stdout(), "begins with"), f.stdout())
		assert.Contains(t, f.stderr(), " takes the place of "+first[0])
	}
	c.nothingLeft()
}

// The cluster starts a program again no more often than it was told to.
func TestRestartsAreCounted(t *testing.T) {
	c := newRestarts(newOnCluster(t))
	file := filepath.Join(c.dir, "count.go")
	c.dir = "../.."
	run := c.follow("run", "-a", "--restart", "1", "-v", "data", file, "1000", "0")
	for n := 1; n <= 2; n++ {
		require.Eventually(t, func() bool { return strings.Count(run.stdout(), "begins with") == n }, 2*time.Minute, 100*time.Millisecond)
		c.kubectl(append([]string{"delete", "pod", "-n", c.namespace, "--wait=false"}, c.roots()...)...)
	}
	assert.Equal(t, 143, run.code(), run.stderr())
	assert.Equal(t, 2, strings.Count(run.stdout(), "begins with"))
	assert.Equal(t, 1, strings.Count(run.stderr(), "takes the place"))
	c.nothingLeft()
}

// A program that fails by itself, or for its memory, is not started again, whether somebody follows it or not.
func TestNoRestartAfterAFailure(t *testing.T) {
	c := newRestarts(newOnCluster(t))
	run := c.restarting("2", "3")
	assert.Equal(t, 3, run.code(), run.stderr())
	assert.Equal(t, "begins with 0\n1\n2\n", run.stdout())
	c.nothingLeft()

	c.look(nil, "rm -f state* counts")
	main := filepath.Join(t.TempDir(), "count.go")
	write(t, main, counting)
	_, stderr, code := c.fiber("run", "-a", "--memory", "100MiB", "--restart", "3", "-v", "data", main, "2", "eat")
	assert.Equal(t, 137, code, stderr)
	assert.Contains(t, stderr, "OOMKilled")
	c.nothingLeft()

	for end, status := range map[string]string{"3": "exit code 3", "eat": "OOMKilled|exit code 137"} {
		c.look(nil, "rm -f state* counts")
		_, stderr, code = c.fiber("run", "--no-attach", "--memory", "100MiB", "--name", "mine", "--restart", "3", "-v", "data", main, "1", end)
		require.Zero(t, code, stderr)
		var out string
		require.Eventually(t, func() bool {
			out, _, _ = c.fiber("ps")
			return strings.Contains(out, " count ") && !strings.Contains(out, "running") && !strings.Contains(out, "pending")
		}, 2*time.Minute, 100*time.Millisecond)
		time.Sleep(15 * time.Second) // a Job that would replace the pod does so after ten
		out, _, _ = c.fiber("ps")
		assert.Regexp(t, `(?m)^mine +count +(`+status+`) `, out)
		assert.Len(t, c.roots(), 1, end)
		assert.Equal(t, 1, strings.Count(string(c.look(nil, "cat counts")), "\n"))
		out, stderr, code = c.fiber("logs", "-f", "mine")
		assert.Zero(t, code, stderr)
		assert.Equal(t, "begins with 0\n1\n", out)
		out, stderr, code = c.fiber("clean")
		assert.Zero(t, code, stderr)
		assert.Equal(t, "job mine\n", out)
		c.nothingLeft()
	}
}

func TestWhoEndsAProgramThatIsStartedAgain(t *testing.T) {
	c := newRestarts(newOnCluster(t))
	main := filepath.Join(t.TempDir(), "count.go")
	write(t, main, counting)
	c.dir = "../.."
	for _, now := range []string{"", "--now"} {
		c.look(nil, "rm -f state* counts")
		run := c.follow("run", "-a", "--restart", "3", "--name", "mine", "-v", "data", main, "1000", "0")
		run.says("\n2\n")
		_, stderr, code := c.fiber("run", "-a", "--restart", "3", "--name", "mine", "-v", "data", main, "1000", "0")
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "there is a job mine in the namespace "+c.namespace+" already: fiber stop mine removes it")
		out, stderr, code := c.fiber(strings.Fields("stop mine " + now)...)
		assert.Zero(t, code, stderr)
		assert.Equal(t, "Stopped mine\n", out)
		assert.NotZero(t, run.code())
		assert.NotContains(t, run.stderr(), "takes the place")
		assert.NotContains(t, run.stderr(), "lease")
		c.nothingLeft()
	}
	run := c.follow("run", "-a", "--restart", "3", "--name", "mine", "-v", "data", main, "1000", "0")
	run.says("begins with")
	require.NoError(t, run.cmd.Process.Signal(syscall.SIGINT))
	assert.Equal(t, 130, run.code(), run.stderr())
	c.nothingLeft()

	// Between two pods, it can be stopped as well.
	run = c.follow("run", "-a", "--restart", "3", "--name", "mine", "-v", "data", main, "1000", "0")
	run.says("begins with")
	c.kubectl("delete", "pod", c.roots()[0], "-n", c.namespace, "--force", "--grace-period=0")
	out, _, _ := c.fiber("ps")
	assert.Regexp(t, `(?m)^mine +count +restarting `, out)
	out, stderr, code := c.fiber("stop", "mine")
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Stopped mine\n", out)
	assert.NotZero(t, run.code(), run.stderr())
	c.nothingLeft()
}

func TestWhatCanNotBeStartedAgain(t *testing.T) {
	c := newOnCluster(t)
	for _, mode := range []string{"ReadWriteOnce", "ReadOnlyMany"} {
		manifest := filepath.Join(t.TempDir(), "claim.yaml")
		write(t, manifest, fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s}\n"+
			"spec: {accessModes: [%s], resources: {requests: {storage: 1Gi}}}\n", strings.ToLower(mode), mode))
		c.kubectl("apply", "-n", c.namespace, "-f", manifest)
	}
	c.claim()
	for want, args := range map[string][]string{
		"the claim readwriteonce is ReadWriteOnce: on another node, the program could not have it; use a claim with the access mode ReadWriteMany": {"-v", "readwriteonce"},
		"the claim readonlymany is ReadOnlyMany":               {"-v", "data:/x", "-v", "readonlymany"},
		"has no claim nosuch":                                  {"-v", "nosuch"},
		"use -v CLAIM with a claim of the access mode ReadWri": nil,
		"main.go does not use Fiber":                           {"-v", "data"},
	} {
		_, stderr, code := c.fiber(append(append([]string{"run", "-a", "--restart", "1"}, args...), "main.go", "exit")...)
		assert.Equal(t, 1, code, stderr)
		assert.Contains(t, stderr, want)
	}
	c.nothingLeft()
}

// A root that is cut off from the API server ends before another one may begin.
func TestARootThatIsCutOffEnds(t *testing.T) {
	c := newRestarts(newOnCluster(t))
	apiServer(t) // the pods' network is this machine's
	run := c.restarting("60", "0")
	run.says("\n2\n")
	pod := c.roots()[0]
	ip := c.kubectl("get", "pod", pod, "-n", c.namespace, "-o", "jsonpath={.status.podIP}")
	rule := []string{"FORWARD", "-s", ip, "-p", "tcp", "--dport", "6443", "-j", "DROP"}
	input := append([]string{"INPUT"}, rule[1:]...)
	for _, r := range [][]string{rule, input} {
		out, err := exec.Command("iptables", append([]string{"-I"}, r...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Cleanup(func() { _ = exec.Command("iptables", append([]string{"-D"}, r...)...).Run() })
	}
	require.Eventually(t, func() bool { return strings.Contains(run.stderr(), "the lease mine could not be renewed for 12s") }, time.Minute, 100*time.Millisecond)
	assert.Zero(t, run.code(), run.stderr())
	c.whole(run.stdout(), 60, 0)
	assert.Contains(t, run.stderr(), " takes the place of "+pod+", which has ended: exit code 137")
	c.nothingLeft()
}

// A run survives the death of its root's node, and one that is cut off, whose root can still write to the claim.
func TestRestartAfterANodeDied(t *testing.T) {
	node := os.Getenv("FIBER_TEST_NODE")
	if node == "" {
		t.Skip("no second node")
	}
	for deed, undo := range map[string]string{"kill": "up", "cut": "join"} {
		t.Run(deed, func(t *testing.T) {
			out, err := exec.Command("kubectl", "cordon", "node2").CombinedOutput()
			require.NoError(t, err, "%s", out)
			c := newRestarts(newAlone(t)) // its viewer is on the other node
			c.kubectl("uncordon", "node2")
			c.kubectl("cordon", "node1")
			uncordon := func() { c.kubectl("uncordon", "node1") }
			defer uncordon()
			run := c.restarting("50", "5")
			run.says("\n3\n")
			logs := c.follow("logs", "-f", "mine")
			logs.says("\n3\n")
			uncordon()
			pod := c.roots()[0]
			require.Equal(t, "node2", c.kubectl("get", "pod", pod, "-n", c.namespace, "-o", "jsonpath={.spec.nodeName}"))
			do := func(verb string) {
				out, err := exec.Command(node, verb).CombinedOutput()
				require.NoError(t, err, "%s: %s", verb, out)
			}
			do(deed)
			died := time.Now()
			defer do(undo)
			require.Eventually(t, func() bool { return strings.Count(string(c.look(nil, "cut -d' ' -f1 counts | uniq")), "\n") == 2 }, 4*time.Minute, 100*time.Millisecond)
			t.Logf("it goes on %v after its node's death", time.Since(died))
			assert.Equal(t, 5, run.code(), run.stderr())
			assert.Zero(t, logs.code(), logs.stderr())
			for _, f := range []*following{run, logs} {
				ends := c.whole(f.stdout(), 50, 30)
				t.Logf("its first pod has counted for %v", ends[0].Sub(died))
				assert.Contains(t, f.stderr(), " takes the place of "+pod)
			}
			do(undo)
			c.nothingLeft()
		})
	}
}
