package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/test/browser"
)

// commandKey is a variable of a process that has to be the command.
const commandKey = "FIBER_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandKey) != "" {
		os.Exit(execute(os.Args[1:]))
	}
	var err error
	if binDir, err = os.MkdirTemp("", "fiber-cmd"); err != nil {
		panic(err)
	}
	code := m.Run()
	browser.Close()
	os.RemoveAll(binDir)
	os.Exit(code)
}

// binDir is where the tests have the command built.
var binDir string

// fiber runs the command in a directory.
func fiber(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(append(os.Environ(), commandKey+"=1"), env...)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// An error is one line, and the exit code is not 0.
func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.docker"), "")
	write(t, filepath.Join(dir, "two.docker"), "")
	write(t, filepath.Join(dir, "three.docker", "in a folder"), "")
	write(t, filepath.Join(dir, "lib", "lib.go"), "package lib\n")
	write(t, filepath.Join(dir, "p", "main.go"), "package main\n")
	write(t, filepath.Join(dir, "go.mod"), "module x\n\ngo 1.26\n")
	none := []string{"KUBECONFIG=" + filepath.Join(dir, "none"), "FIBER_REGISTRY="}
	failures := []string{"no cluster is configured", "./lib is package lib, not a program", "no such file"} // errors that are no misuse
	for want, args := range map[string][]string{
		"unknown flag --foo":                      {"run", "--foo", "x"},
		"unexpected argument nosuch":              {"nosuch"},
		"unexpected argument nonesuch":            {"help", "nonesuch"},
		"nothing to run":                          {"run"},
		"--cpu and --gpu can't be negative":       {"run", "--cpu=-1", "--image", "x", "x"},
		`"abc" is not a size`:                     {"run", "--memory", "abc", "--image", "x", "x"},
		`"No" is not a claim`:                     {"run", "-v", "No", "--image", "x", "x"},
		"NOT_SET_HERE is not set here":            {"run", "-e", "NOT_SET_HERE", "--image", "x", "x"},
		"use only one of them":                    {"run", "--image", "x", "--build", "y", "z"},
		"there is no Dockerfile nope":             {"run", "--build", "nope", "z"},
		"choose one of one.docker, two.docker":    {"run", "python", "x.py"},
		"no cluster is configured":                {"ps", "-n", "x"},
		"backend":                                 {"run", "--backend", "moon", "--image", "x:y", "sh"},
		"./lib is package lib, not a program":     {"run", "--backend", "local", "./lib"},
		"there is no package ./gone":              {"run", "./gone"},
		"there is no package gone.go":             {"run", "gone.go"},
		"a program on this machine has its files": {"run", "--backend", "docker", "-v", "data", "./lib"},
		"a program on this machine has its GPUs":  {"run", "--backend", "local", "--gpu", "1", "sh"},
		"on this machine a command needs none":    {"run", "--backend", "local", "--image", "x", "sh"},
		"--restart 0: it must be at least 1":      {"run", "--restart", "0", "./p"},
		"--restart is for a cluster":              {"run", "--restart", "1", "--backend", "local", "./p"},
		"with --backend docker, nothing does":     {"run", "--restart", "1", "--backend", "docker", "./p"},
		"for a Go package that uses Fiber":        {"run", "--restart", "1", "--image", "x", "x"},
		"neither a nor b is in a claim":           {"cp", "a", "b"},
		"are both in claims":                      {"cp", "a:b", "c:d"},
		"no such file":                            {"cp", "nope", "c:d"},
	} {
		_, stderr, code := fiber(t, dir, none, args...)
		wrong := 2
		if slices.Contains(failures, want) {
			wrong = 1
		}
		assert.Equal(t, wrong, code, args)
		assert.Contains(t, stderr, want, args)
		assert.Len(t, strings.Split(strings.TrimSpace(stderr), "\n"), 1, stderr)
		assert.True(t, strings.HasPrefix(stderr, "fiber: "), stderr)
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, same := range [][2][]string{
		{{"help"}, {"--help"}},
		{{"help"}, {}},
		{{"help", "run"}, {"run", "--help"}},
		{{"help", "help"}, {"help", "--help"}},
		{{"--version"}, {"version"}},
	} {
		said, stderr, code := fiber(t, t.TempDir(), nil, same[0]...)
		assert.Zero(t, code, stderr)
		also, _, _ := fiber(t, t.TempDir(), nil, same[1]...)
		assert.Equal(t, also, said, same)
	}
	said, _, _ := fiber(t, t.TempDir(), nil, "help", "run")
	assert.Contains(t, said, "--memory=SIZE")
	said, _, _ = fiber(t, t.TempDir(), nil, "--version")
	assert.Regexp(t, `^fiber \S+ go\S+ \w+/\w+\n$`, said)
}

func TestRunHere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module x\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "p", "main.go"), "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\n"+
		"func main() {\n\tfmt.Println(os.Args[1:], os.Getenv(\"A\"), os.Getenv(\"FIBER_BACKEND\"))\n\tos.Exit(3)\n}\n")
	build := "GOCACHE=" + command(t, "go", "env", "GOCACHE")
	out, stderr, code := fiber(t, dir, []string{build}, "run", "--backend", "local", "-e", "A=b", "./p", "--flag", "x")
	assert.Equal(t, "[--flag x] b local\n", out, stderr)
	assert.Equal(t, 3, code)
	_, stderr, code = fiber(t, dir, []string{build, "GOFLAGS=-buildvcs=false -tags=other"}, "run", "--backend", "local", "./p")
	assert.Equal(t, 3, code, stderr)

	temporary := t.TempDir() // go itself removes what it makes there
	none := []string{"XDG_CACHE_HOME=", "HOME=", "TMPDIR=" + temporary, build, "GOMODCACHE=" + command(t, "go", "env", "GOMODCACHE")}
	_, stderr, code = fiber(t, dir, append(none, "GOPATH="+command(t, "go", "env", "GOPATH")), "run", "--backend", "local", "./p")
	assert.Equal(t, 3, code, stderr)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left, "nothing is left")

	none = []string{"TMPDIR=" + filepath.Join(dir, "none"), "FIBER_RUNTIME_DIR=" + dir}
	out, stderr, code = fiber(t, dir, none, "run", "--backend", "local", "sh", "-c", "echo here")
	assert.Equal(t, "here\n", out, stderr)
	assert.Zero(t, code, "what is not built needs no folder")

	ofClusters := []string{"FIBER_BACKEND=local", "FIBER_KUBERNETES_VOLUMES=data", "FIBER_ROOT_GPU=1", "FIBER_ROOT_CPU=1"}
	out, stderr, code = fiber(t, dir, ofClusters, "run", "sh", "-c", "echo here $GOMAXPROCS")
	assert.Equal(t, "here\n", out, stderr)
	assert.Zero(t, code)

	out, stderr, code = fiber(t, dir, nil, "run", "--backend", "local", "sh", "-c", "echo $0; kill -9 $$", "zero")
	assert.Equal(t, "zero\n", out, stderr)
	assert.Equal(t, 137, code)

	write(t, filepath.Join(dir, "bad", "main.go"), "package main\n\nfunc main() { x }\n")
	_, stderr, code = fiber(t, dir, []string{build}, "run", "--backend", "local", "./bad")
	assert.Contains(t, stderr, "undefined: x", "the compiler's words")
	assert.Contains(t, stderr, "./bad does not build")
	assert.Equal(t, 1, code)
}

// A program is what go build makes: it says which revision it was built from.
func TestRunBuildsAsGoBuildDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module x\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport (\n\t\"fmt\"\n\t\"runtime/debug\"\n)\n\n"+
		"func main() {\n\tinfo, _ := debug.ReadBuildInfo()\n\tfmt.Println(info)\n}\n")
	command(t, "git", "-C", dir, "init", "-q")
	command(t, "git", "-C", dir, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x")
	out, stderr, code := fiber(t, dir, []string{"GOFLAGS=-buildvcs=true"}, "run", "--backend", "local", ".")
	assert.Zero(t, code, stderr)
	assert.Contains(t, out, "vcs.revision="+command(t, "git", "-C", dir, "rev-parse", "HEAD"))
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func TestMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.ByteSize{"": 0, "300": 300 * config.MiB, "2GiB": 2 * config.GiB, "512MiB": 512 * config.MiB} {
		got, err := memory(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestWhatIsAPackage(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "examples/pi/main.go", "package main\n")
	write(t, "data/x.txt", "")
	for arg, want := range map[string]bool{
		"./examples/pi": true, "examples/pi": true, "main.go": true, ".": true, "example.com/x/cmd": true,
		"python": false, "data": false, "/bin/sh": false, "./run.sh": false, "./nothere": true,
	} {
		assert.Equal(t, want, isPackage(arg), arg)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, stderr, code := fiber(t, ".", nil, "completion", shell)
		require.Zero(t, code, stderr)
		assert.Contains(t, out, "fiber complete")
	}
	for line, want := range map[string]string{
		"fiber run --me":    "--memory\n",
		"fiber st":          "stop\n",
		"fiber ":            "run\nps\ntop\ndashboard\nlogs\nstop\ncp\nclean\ncheckpoint\nreport\nvet\ndoctor\nversion\nhelp\ncompletion\n--help\n",
		"fiber run --no-at": "--no-attach\n",
		"fiber run --res":   "--restart\n",
		"fiber run ":        "",
		"fiber run exam":    "",
	} {
		out, stderr, code := fiber(t, ".", []string{"COMP_LINE=" + line}, "complete", "fiber", "x", "y")
		require.Zero(t, code, stderr)
		assert.Equal(t, want, out, line)
	}
}

// Pods for copies are placed, and their images pulled, as the template says for programs. Nothing else of it applies.
func TestCopiesByATemplate(t *testing.T) {
	t.Parallel()
	assert.Nil(t, placed(nil))
	secrets := []corev1.LocalObjectReference{{Name: "pull"}}
	got := placed(&corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: secrets, ServiceAccountName: "me", Containers: []corev1.Container{{Name: "gpu"}}}})
	assert.Equal(t, corev1.PodSpec{ImagePullSecrets: secrets, ServiceAccountName: "me"}, got.Spec)
}
