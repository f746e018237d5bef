//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// interruption is a command line that is interrupted.
type interruption struct {
	args   string // split at spaces; see words
	env    string
	code   int    // of what is not interrupted
	before string // a command line that comes first, if any
	leaves string // the beginning of the names of pods and secrets that it leaves
	docker bool   // it needs an engine
}

// interruptions have every command, and every flag, at least once.
var interruptions = []interruption{
	{args: "run -a main.go exit", code: 7},
	{args: "run -a PI -samples 2000000 -workers 2"},
	{args: "run --no-attach -n NAMESPACE --name left main.go exit", leaves: "left"},
	{args: "run -a --restart 1 -v data PI -samples 2000000 -workers 2"},
	{args: "run -a -v data -e A=b --cpu 0.1 --memory 64MiB --image busybox:1.37 sh -c exit\u00a05", code: 5},
	{args: "run -a --keep --name left --image busybox:1.37 sh -c exit\u00a05", code: 5, leaves: "left"},
	{args: "run -a --gpu 1 --image busybox:1.37 sh", code: 1, env: "FIBER_START_TIMEOUT=5s"},
	{args: "run -a --build Dockerfile /program exit", code: 7, docker: true},
	{args: "run --backend local main.go exit", code: 7},
	{args: "run --backend local --dashboard PI -samples 40000000 -workers 2"},
	{args: "run --backend local PI -samples 40000000 -workers 2"},
	{args: "run --backend docker PI -samples 2000000 -workers 2", docker: true},
	{args: "run --backend docker --name NAMESPACE -e MARK --image fiber-test:NAMESPACE /program exit", code: 7, docker: true},
	{args: "run --backend docker -e MARK --build Dockerfile /program exit", code: 7, docker: true},
	{args: "ps -n NAMESPACE"},
	{args: "ps -A"},
	{args: "top --once -n NAMESPACE there", code: 1, before: "run --name there --image busybox:1.37 sleep 3600"},
	{args: "dashboard --no-browser -n NAMESPACE there", code: 1, before: "run --name there --image busybox:1.37 sleep 3600"},
	{args: "logs -n NAMESPACE there", before: "run --name there --image busybox:1.37 sh -c echo\u00a0x;sleep\u00a02"},
	{args: "logs -f there", before: "run --name there --image busybox:1.37 sh -c echo\u00a0x;sleep\u00a02"},
	{args: "stop -n NAMESPACE there", before: "run --name there --image busybox:1.37 sleep 3600"},
	{args: "stop --now there", before: "run --name there --image busybox:1.37 sleep 3600"},
	{args: "cp up/file data:file"},
	{args: "cp -n NAMESPACE up data:"},
	{args: "cp --image busybox:1.37 up/file data:new/folder/"},
	{args: "cp data:down/file file"},
	{args: "cp data:down ."},
	{args: "cp data:down new/folder/"},
	{args: "clean -n NAMESPACE", before: "run -a --keep --name there --image busybox:1.37 sh -c :"},
	{args: "clean --dry-run", before: "run -a --keep --name there --image busybox:1.37 sh -c :"},
	{args: "doctor -n NAMESPACE"},
	{args: "checkpoint --csv file", code: 1},
	{args: "checkpoint --json file", code: 1},
	{args: "report -o page.html file", code: 1},
	{args: "vet main.go"},
	{args: "version"},
	{args: "--version"},
	{args: "help run"},
	{args: "--help"},
	{args: "completion bash"},
	{args: "complete fiber x y"},
}

// Whatever is interrupted ends, with an exit code that says so unless it had ended. It leaves no process, no folder, no pod
// and no secret, and no file that is neither as it was nor as it would have become. FIBER_TEST_INTERRUPTS is how often each
// command is interrupted, and FIBER_TEST_SEED repeats the moments.
func TestInterruptedCommands(t *testing.T) {
	covered(t)
	c := newInterrupted(t)
	times, seed := uint64(2), uint64(time.Now().UnixNano())
	if testing.Short() {
		times = 1
	}
	for variable, n := range map[string]*uint64{"FIBER_TEST_INTERRUPTS": &times, "FIBER_TEST_SEED": &seed} {
		if text := os.Getenv(variable); text != "" {
			var err error
			*n, err = strconv.ParseUint(text, 10, 64)
			require.NoError(t, err, variable)
		}
	}
	t.Logf("FIBER_TEST_SEED=%d", seed)
	for _, i := range interruptions {
		t.Run(i.args, func(t *testing.T) {
			if i.docker && !c.docker {
				t.Skip("no docker engine answers")
			}
			c := c.in(t)
			hash := fnv.New64()
			hash.Write([]byte(i.args))
			random := rand.New(rand.NewPCG(seed, hash.Sum64()))
			whole := c.interrupt(i, nil, 0, false)
			if strings.HasPrefix(i.args, "run ") { // it has been built, and pulled
				whole = c.interrupt(i, nil, 0, false)
			}
			for n := range times {
				moment := time.Duration(float64(whole.took) / float64(times) * (float64(n) + random.Float64()))
				c.interrupt(i, &whole, moment, random.IntN(2) == 0)
			}
		})
	}
}

// covered checks that each command and each of its flags has an interruption.
func covered(t *testing.T) {
	parser, err := newParser()
	require.NoError(t, err)
	used := map[string]bool{}
	for _, i := range interruptions {
		words := strings.Fields(i.args)
		for _, word := range words {
			used[words[0]+" "+word] = true
		}
	}
	for _, command := range parser.Model.Children {
		assert.True(t, used[command.Name+" "+command.Name], "%s has no interruption", command.Name)
		for _, f := range command.Flags {
			assert.True(t, used[command.Name+" --"+f.Name] || f.Short != 0 && used[command.Name+" -"+string(f.Short)], "%s --%s has no interruption", command.Name, f.Name)
			assert.True(t, f.Tag.Negatable == "" || used[command.Name+" --no-"+f.Name], "%s --no-%s has no interruption", command.Name, f.Name)
		}
	}
	for _, f := range parser.Model.Flags {
		assert.True(t, used["--"+f.Name+" --"+f.Name], "--%s has no interruption", f.Name)
	}
}

// grounds are where commands are interrupted.
type grounds struct {
	*onCluster
	docker    bool
	mark      string            // a variable of everything that is started
	temporary string            // where temporary files are
	here      map[string]string // the files of this machine before a command
	claim     map[string]string // those of the claim
	files     []byte            // the claim's, as an archive
}

// state is what there was after a command.
type state struct {
	took        time.Duration
	here, claim map[string]string
}

func newInterrupted(t *testing.T) *grounds {
	c := &grounds{onCluster: newOnCluster(t), temporary: t.TempDir()}
	c.onCluster.claim()
	c.viewer()
	c.mark = "INTERRUPTED=" + c.namespace
	c.env = append(c.env, c.mark, "TMPDIR="+c.temporary, "XDG_RUNTIME_DIR="+c.temporary)
	write(t, filepath.Join(c.dir, "Dockerfile"), "FROM scratch\nCOPY program /program\n")
	write(t, filepath.Join(c.dir, ".dockerignore"), "*\n!program\n")
	random, claim := rand.NewChaCha8([32]byte{}), t.TempDir()
	for _, dir := range []string{filepath.Join(c.dir, "up"), filepath.Join(claim, "down")} {
		large := make([]byte, 32<<20)
		random.Read(large)
		write(t, filepath.Join(dir, "file"), string(large))
		for i := range 200 {
			write(t, filepath.Join(dir, "sub", fmt.Sprint(i)), strings.Repeat("new", i))
		}
	}
	for _, there := range []string{filepath.Join(claim, "up"), filepath.Join(c.dir, "down"), claim, c.dir} { // what is copied onto
		write(t, filepath.Join(there, "file"), strings.Repeat("old", 1<<20))
		write(t, filepath.Join(there, "stays"), "old")
		write(t, filepath.Join(there, "sub", "1"), "old")
	}
	build := exec.Command("go", "build", "-o", "program", "main.go")
	build.Dir, build.Env = c.dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	if exec.Command("docker", "version").Run() == nil {
		c.docker = true
		image := "fiber-test:" + c.namespace
		build := exec.Command("docker", "build", "-q", "-t", image, ".")
		build.Dir = c.dir
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
		t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", image).Run() })
	}
	archive := exec.Command("tar", "-c", "--owner=0", "--group=0", "-f", "-", ".")
	archive.Dir = claim
	c.files, err = archive.Output()
	require.NoError(t, err)
	c.look(c.files, "tar -x -f -")
	c.here = tree(t, c.dir)
	c.claim = c.inClaim()
	return c
}

func (c grounds) in(t *testing.T) *grounds {
	on := *c.onCluster
	on.T, c.onCluster = t, &on
	return &c
}

// words are those of a command line.
func (c *grounds) words(line string) (words []string) {
	pi, err := filepath.Abs("../../examples/pi")
	require.NoError(c, err)
	for _, word := range strings.Split(line, " ") {
		words = append(words, strings.NewReplacer("NAMESPACE", c.namespace, "PI", pi, "MARK", c.mark, "\u00a0", " ").Replace(word))
	}
	return words
}

// viewer starts a pod that has the claim.
func (c *onCluster) viewer() {
	manifest := filepath.Join(c.TempDir(), "viewer.yaml")
	write(c.T, manifest, `
apiVersion: v1
kind: Pod
metadata: {name: viewer}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: viewer, image: "busybox:1.37", command: [sleep, "1000000"], volumeMounts: [{name: data, mountPath: /claim}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`)
	c.kubectl("apply", "-n", c.namespace, "-f", manifest)
	c.kubectl("wait", "-n", c.namespace, "--for=condition=Ready", "--timeout=5m", "pod/viewer")
}

// look runs a command where the claim is.
func (c *onCluster) look(in []byte, command string) []byte {
	c.Helper()
	cmd := exec.Command("kubectl", "exec", "-i", "-n", c.namespace, "viewer", "--", "sh", "-c", "cd /claim; "+command)
	var errs strings.Builder
	cmd.Env, cmd.Stdin, cmd.Stderr = c.admin, bytes.NewReader(in), &errs
	out, err := cmd.Output()
	require.NoError(c, err, errs.String())
	return out
}

// inClaim returns what is in the claim.
func (c *onCluster) inClaim() map[string]string {
	c.Helper()
	all, archive := map[string]string{}, tar.NewReader(bytes.NewReader(c.look(nil, "tar -c -f - .")))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(c, err)
		text, err := io.ReadAll(archive)
		require.NoError(c, err)
		all[path.Clean(h.Name)] = string(text)
	}
}

// made lists the pods and secrets that the command has made.
func (c *onCluster) made() []string {
	return strings.Fields(c.kubectl("get", "pods,secrets,jobs,leases", "-n", c.namespace, "-l", "app.kubernetes.io/managed-by=fiber", "-o", "name"))
}

// interrupt runs a command, and interrupts it unless whole is nil: then it says how all should be in the end. A signal goes to
// the command alone, or to all that it has started, too, as that of a terminal does.
func (c *grounds) interrupt(i interruption, whole *state, moment time.Duration, group bool) state {
	c.Helper()
	if i.before != "" {
		_, stderr, code := c.fiber(c.words(i.before)...)
		require.Zero(c, code, stderr)
		if strings.HasPrefix(i.args, "clean") {
			require.Eventually(c, func() bool {
				return strings.Contains(c.kubectl("get", "pod", "there", "-n", c.namespace, "-o", "jsonpath={.status.phase}"), "Succeeded")
			}, 4*time.Minute, 100*time.Millisecond)
		}
	}
	before := c.made()
	cmd := exec.Command(c.bin, c.words(i.args)...)
	var said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = c.dir, append(c.env[:len(c.env):len(c.env)], strings.Fields(i.env)...), &said, &said, &syscall.SysProcAttr{Setpgid: true}
	begun, ended := time.Now(), make(chan struct{})
	require.NoError(c, cmd.Start())
	go func() {
		_ = cmd.Wait() // the exit code says it
		close(ended)
	}()
	what := i.args
	if whole != nil {
		what = fmt.Sprintf("%s, interrupted after %v (group: %v)", what, moment, group)
		select {
		case <-ended:
		case <-time.After(moment):
			target := cmd.Process.Pid
			if group {
				target = -target
			}
			_ = syscall.Kill(target, syscall.SIGINT) // it may have ended
		}
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		require.FailNow(c, "it hangs", what)
	}
	took, code := time.Since(begun), cmd.ProcessState.ExitCode()
	if w := cmd.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() && w.Signal() == syscall.SIGINT {
		code = 130
	}
	if code != i.code {
		assert.True(c, code == 130 && whole != nil, "%s: exit code %d: %s", what, code, said.String())
	}
	what += fmt.Sprintf(": exit code %d, %s", code, said.String())

	var left []string
	gone := func() bool {
		left = slices.DeleteFunc(c.made(), func(name string) bool {
			return slices.Contains(before, name) || code == i.code && i.leaves != "" && strings.HasPrefix(path.Base(name), i.leaves)
		})
		return len(left) == 0
	}
	assert.Eventually(c, gone, 4*time.Minute, 200*time.Millisecond, "%s: %v is left", what, &left)
	assert.Eventually(c, func() bool {
		left = append(c.processes(), c.containers()...)
		return len(left) == 0
	}, 4*time.Minute, 100*time.Millisecond, "%s: %v is left", what, &left)
	left, _ = filepath.Glob(filepath.Join(c.temporary, "*"))
	assert.Empty(c, left, what)
	for _, file := range left {
		require.NoError(c, os.RemoveAll(file))
	}

	now := state{took: took, here: tree(c.T, c.dir), claim: c.claim}
	if strings.HasPrefix(i.args, "cp ") {
		now.claim = c.inClaim()
	}
	if whole == nil {
		whole = &now
		assert.NotEqual(c, strings.HasPrefix(i.args, "cp "), maps.Equal(now.here, c.here) && maps.Equal(now.claim, c.claim), what)
	}
	undone := code == 130
	c.compare(now.here, c.here, whole.here, undone, what)
	c.compare(now.claim, c.claim, whole.claim, undone, what)
	c.reset(now)
	return now
}

// compare checks that all is as it is after the whole command or, if that was interrupted, as it was before.
func (c *grounds) compare(now, before, after map[string]string, undone bool, what string) {
	c.Helper()
	if maps.Equal(now, after) || undone && maps.Equal(now, before) {
		return
	}
	for name := range maps.Keys(now) {
		if text, was := before[name]; !was || text != now[name] {
			assert.Fail(c, "neither as before nor as after", "%s: %s, %d bytes", what, name, len(now[name]))
		}
	}
	for name := range before {
		assert.Contains(c, now, name, what)
	}
}

// reset has all as it was before.
func (c *grounds) reset(now state) {
	c.Helper()
	c.kubectl("delete", "pods", "-n", c.namespace, "-l", "app.kubernetes.io/managed-by=fiber", "--grace-period=1")
	if !maps.Equal(now.claim, c.claim) {
		c.look(c.files, "rm -rf ..?* .[!.]* *; tar -x -f -")
	}
	if maps.Equal(now.here, c.here) {
		return
	}
	for name := range now.here {
		if _, was := c.here[name]; !was {
			require.NoError(c, os.RemoveAll(filepath.Join(c.dir, name)))
		}
	}
	for name, text := range c.here {
		if info, err := os.Lstat(filepath.Join(c.dir, name)); err != nil || info.Mode().IsRegular() {
			write(c.T, filepath.Join(c.dir, name), text)
		}
	}
}

// processes lists what is left of the commands on this machine.
func (c *grounds) processes() (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		if env, _ := os.ReadFile(file); bytes.Contains(env, []byte(c.mark)) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			left = append(left, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return left
}

// containers lists what is left of them on the engine.
func (c *grounds) containers() (left []string) {
	if !c.docker {
		return nil
	}
	ids, err := exec.Command("docker", "ps", "-aq").Output()
	require.NoError(c, err)
	for _, id := range strings.Fields(string(ids)) {
		text, _ := exec.Command("docker", "inspect", id).Output() // it may be gone
		if bytes.Contains(text, []byte(c.mark)) {
			left = append(left, "container "+id)
		}
	}
	return left
}

// An upload that ends early changes nothing, whatever ended it.
func TestUploadThatEndsEarly(t *testing.T) {
	c := newOnCluster(t)
	c.claim()
	c.viewer()
	c.look(nil, "mkdir dir; echo old >dir/file; echo old >dir/stays")
	before := c.inClaim()
	write(t, filepath.Join(c.dir, "dir", "file"), "")
	require.NoError(t, os.Truncate(filepath.Join(c.dir, "dir", "file"), 4<<30)) // there is time to end it
	for name, test := range map[string]struct {
		code int
		end  func(*exec.Cmd)
	}{
		"a signal": {130, func(cmd *exec.Cmd) { assert.NoError(t, cmd.Process.Signal(syscall.SIGINT)) }},
		"a second signal": {130, func(cmd *exec.Cmd) {
			assert.NoError(t, cmd.Process.Signal(syscall.SIGINT)) // two that are the same: others may change places
			assert.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		}},
		"its death":           {-1, func(cmd *exec.Cmd) { assert.NoError(t, cmd.Process.Kill()) }},
		"the pod was deleted": {1, func(*exec.Cmd) { c.kubectl("delete", "-n", c.namespace, "--wait=false", c.made()[0]) }},
		"an error": {1, func(*exec.Cmd) {
			c.kubectl("exec", "-n", c.namespace, c.made()[0], "--", "sh", "-c",
				`for p in /proc/[0-9]*; do case "$(cat $p/cmdline)" in tar-x*) kill ${p#/proc/};; esac; done`)
		}},
	} {
		cmd, _, stderr := c.start("cp", "dir", "data:")
		begun := func() bool { return strings.Contains(string(c.look(nil, "ls -A")), unfinished) }
		require.Eventually(t, begun, 4*time.Minute, 20*time.Millisecond, name)
		test.end(cmd)
		_ = cmd.Wait() // the exit code says it
		assert.Equal(t, test.code, cmd.ProcessState.ExitCode(), "%s: %s", name, stderr)
		if test.code == 1 {
			assert.Contains(t, stderr.String(), "copying dir: ", name)
		}
		require.Eventually(t, func() bool { return !begun() }, 4*time.Minute, 100*time.Millisecond, name)
		assert.Equal(t, before, c.inClaim(), name)
		c.kubectl("delete", "pods", "-n", c.namespace, "-l", "app.kubernetes.io/managed-by=fiber")
	}
}
