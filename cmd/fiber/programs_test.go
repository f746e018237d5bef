//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/test/browser"
)

// onMachine runs programs and the command with a runtime_dir of their own, and without a cluster.
type onMachine struct {
	*testing.T
	dir, program string
	env          []string
}

func newOnMachine(t *testing.T) *onMachine {
	m := &onMachine{T: t, dir: t.TempDir()}
	m.program = filepath.Join(m.dir, "busy")
	m.env = []string{"KUBECONFIG=" + filepath.Join(m.dir, "none"), "FIBER_RUNTIME_DIR=" + m.dir}
	out, err := exec.Command("go", "build", "-o", m.program, "./testdata/busy").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return m
}

// start starts the program, which writes to files, and returns when it is listed.
func (m *onMachine) start(env ...string) (name string, cmd *exec.Cmd, stdout string) {
	m.Helper()
	stdout = filepath.Join(m.TempDir(), "stdout")
	out, err := os.Create(stdout)
	require.NoError(m, err)
	defer out.Close()
	errs, err := os.Create(stdout + ".err")
	require.NoError(m, err)
	defer errs.Close()
	cmd = exec.Command(m.program)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(append(os.Environ(), m.env...), env...), out, errs
	require.NoError(m, cmd.Start())
	var once sync.Once
	m.Cleanup(func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	})
	name = "busy-" + strconv.Itoa(cmd.Process.Pid)
	m.shows(`(?m)^`+name+` +busy +running +2 `, "ps")
	return name, cmd, stdout
}

// shows waits until the command shows something: on a busy machine, programs may take too long to answer.
func (m *onMachine) shows(want string, args ...string) {
	m.Helper()
	out := ""
	require.Eventually(m, func() bool {
		out, _, _ = m.fiber(args...)
		return regexp.MustCompile(want).MatchString(out)
	}, 2*time.Minute, 10*time.Millisecond, "%s", &out)
}

func (m *onMachine) fiber(args ...string) (stdout, stderr string, code int) {
	m.Helper()
	return fiber(m.T, m.dir, m.env, args...)
}

// status returns how a program has ended.
func (m *onMachine) status(cmd *exec.Cmd) syscall.WaitStatus {
	_ = cmd.Wait()
	return cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func TestProgramsOfThisMachine(t *testing.T) {
	t.Parallel()
	m := newOnMachine(t)
	list, stderr, code := m.fiber("ps")
	assert.Zero(t, code)
	assert.Empty(t, list)
	assert.Contains(t, stderr, "no programs on this machine, and no cluster is configured")
	first, cmd, stdout := m.start()
	second, other, _ := m.start()
	m.shows(`^NAME +PROGRAM +STATUS +PROCESSES +AGE +NODE\n`+first+` +busy +running +2 +\S+ +here\n`+second+` +busy +running +2 +\S+ +here\n$`, "ps")

	for _, args := range [][]string{{"top", "busy"}, {"logs", "busy"}, {"stop", "busy"}} {
		_, stderr, code = m.fiber(args...)
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "may be any of "+first+", "+second+": use the full name")
	}
	for _, args := range [][]string{{"top", ""}, {"logs", ""}, {"stop", first, ""}} {
		_, stderr, code = m.fiber(args...)
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "the name of the program is empty")
	}
	for _, args := range [][]string{{"top", "none"}, {"logs", "busy-"}, {"stop", first, "none"}, {"stop", "-n", "x", first}} {
		_, stderr, code = m.fiber(args...)
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "no cluster is configured")
	}

	broken := filepath.Join(m.dir, "broken")
	write(t, broken, "no yaml: [")
	list, stderr, code = fiber(t, m.dir, append(m.env, "KUBECONFIG="+broken), "ps")
	assert.Equal(t, 1, code)
	assert.Contains(t, list, first)
	assert.Contains(t, stderr, "the configuration of the cluster")

	out, stderr, code := m.fiber("stop", first)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Stopped "+first+"\n", out)
	assert.Equal(t, 143, m.status(cmd).ExitStatus(), "it was asked to end")
	said, err := os.ReadFile(stdout)
	require.NoError(t, err)
	assert.Regexp(t, `^begins\nends: .*`, string(said))
	out, stderr, code = m.fiber("stop", "--now", strconv.Itoa(other.Process.Pid))
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Stopped "+second+"\n", out)
	assert.Equal(t, syscall.SIGKILL, m.status(other).Signal())
	list, _, _ = m.fiber("ps")
	assert.Empty(t, list)
	left, err := filepath.Glob(filepath.Join(m.dir, "fiber-*"))
	require.NoError(t, err)
	assert.Empty(t, left, "what a killed root has left is removed")
}

func TestTop(t *testing.T) {
	t.Parallel()
	m := newOnMachine(t)
	name, cmd, _ := m.start()
	m.shows(`(?s)^`+name+`  local · up \d[^\x1b]*s · 3 processes · [^\x1b]* CPUs · [0-9.]+ MiB\n`+
		`\nCALL +POOL +DONE +FAILED +RETRIED +RATE +LEFT\nnap +nappers +\d+/1000000 \(0%\) +0 +0 +[0-9.]+/s +\d+h[^\x1b]*\n`+
		`\nPOOL +READY +IDLE +STARTING +LOST [^\x1b]*\nnappers +2 +0 +0 +0 [^\x1b]*\n`+
		`\nPROCESS +STATE +CPU +MEMORY [^\x1b]*\nnappers-\d +ready +\d+% +[0-9.]+ MiB [^\x1b]* nap #\d+, [^\x1b]*$`, "top", "busy")

	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	list, _, _ := m.fiber("ps")
	assert.Regexp(t, `(?m)^`+name+` +busy +no answer +- `, list)
	_, stderr, code := m.fiber("top", "--once", name)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, name+" does not answer")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	m.shows(`^`+name+`  local `, "top", "--once", name)
}

// terminal starts a shell in a terminal of 80 columns. Tmux calls its tmux, and shows waits for something on the screen.
func (m *onMachine) terminal(env ...string) (tmux func(...string) string, shows func(string)) {
	m.Helper()
	socket := filepath.Join(m.dir, "tmux")
	tmux = func(args ...string) string {
		out, err := exec.Command("tmux", append([]string{"-S", socket}, args...)...).CombinedOutput()
		require.NoError(m, err, "%s", out)
		return string(out)
	}
	session := exec.Command("tmux", "-S", socket, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "20", "env", "PS1=> ", "sh")
	session.Env = append(append(append(os.Environ(), m.env...), commandKey+"=1"), env...)
	out, err := session.CombinedOutput()
	require.NoError(m, err, "%s", out)
	m.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() })
	shows = func(want string) {
		m.Helper()
		pane := ""
		require.Eventually(m, func() bool {
			pane = tmux("capture-pane", "-p")
			return regexp.MustCompile(want).MatchString(pane)
		}, time.Minute, 50*time.Millisecond, "%s", want)
		for line := range strings.Lines(pane) {
			assert.LessOrEqual(m, len([]rune(strings.TrimSpace(line))), 80)
		}
	}
	shows(`^>`)
	return tmux, shows
}

// On a terminal, fiber top shows the program until it ends, or until a key is pressed, and leaves the screen as it was.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	m := newOnMachine(t)
	name, cmd, _ := m.start()
	tmux, shows := m.terminal()
	executable, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	top := executable + " top " + name
	for _, key := range []string{"q", "C-c"} {
		tmux("send-keys", "-l", "echo before; "+top+"; echo code $?")
		tmux("send-keys", "Enter")
		shows(`(?s)^` + name + `  local · up .*\n\nCALL .*\nPROCESS .*nappers-\d +ready`)
		tmux("resize-window", "-x", "40", "-y", "8")
		shows(`^` + name + `  local · up .*…\n\nCALL `)
		tmux("resize-window", "-x", "80", "-y", "20")
		tmux("send-keys", key)
		shows(`(?s)before\s+code 0\s+>\s*$`)
		tmux("send-keys", "-l", "clear")
		tmux("send-keys", "Enter")
		shows(`^>\s*$`)
	}
	tmux("send-keys", "-l", top)
	tmux("send-keys", "Enter")
	shows(`(?s)^` + name + `  local · up `)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	shows(`(?s)` + name + ` has ended\s+>\s*$`)
}

func TestLogsOfThisMachine(t *testing.T) {
	t.Parallel()
	m := newOnMachine(t)
	name, _, _ := m.start()
	out, stderr, code := m.fiber("logs", name)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "begins\n", out)
	cmd := exec.Command(os.Args[0], "logs", "-f", name)
	var errs bytes.Buffer
	cmd.Env, cmd.Stderr = append(append(os.Environ(), m.env...), commandKey+"=1"), &errs
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first := make([]byte, len("begins\n"))
	_, err = io.ReadFull(stdout, first)
	require.NoError(t, err, "it has found the program")
	_, stderr, code = m.fiber("stop", name)
	assert.Zero(t, code, stderr)
	rest, err := io.ReadAll(stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.Regexp(t, `^begins\nends: .*\n$`, string(first)+string(rest))
	assert.Contains(t, errs.String(), "on stderr\n")

	piped := exec.Command(m.program)
	piped.Env, piped.Stdout = append(os.Environ(), m.env...), new(bytes.Buffer)
	require.NoError(t, piped.Start())
	defer piped.Wait()
	defer piped.Process.Kill()
	require.Eventually(t, func() bool {
		_, stderr, code = m.fiber("logs", "busy")
		return code == 1 && strings.Contains(stderr, "writes neither stdout nor stderr to a file")
	}, time.Minute, 10*time.Millisecond, stderr)
}

// recording returns what the page at an address is made of, as a browser gets it.
func recording(t *testing.T, address string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := &http.Client{Jar: jar}
	answer, err := client.Get(address)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 200, answer.StatusCode)
	answer, err = client.Get(answer.Request.URL.ResolveReference(&url.URL{Path: "/recording"}).String())
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// served starts the program so that it serves a page, and returns the page's address.
func (m *onMachine) served(target, program string) (run *exec.Cmd, address string) {
	m.Helper()
	run = exec.Command(os.Args[0], "run", "--backend", "local", "--dashboard", target)
	var said bytes.Buffer
	run.Env, run.Stderr = append(append(os.Environ(), m.env...), commandKey+"=1"), &said
	require.NoError(m, run.Start())
	m.Cleanup(func() { _, _, _ = m.fiber("stop", "--now", program) })
	require.Eventually(m, func() bool {
		address, _, _ = m.fiber("dashboard", program)
		return address != ""
	}, 3*time.Minute, 50*time.Millisecond)
	return run, strings.TrimSpace(address)
}

// On a terminal a browser opens, through a file that is gone afterwards. It gets in, and Ctrl-C is not for it.
func TestDashboardOpensABrowser(t *testing.T) {
	t.Parallel()
	b := browser.Of(t)
	m := newOnMachine(t)
	_, address := m.served("./testdata/busy", "busy")
	bin := filepath.Join(m.dir, "bin")
	write(t, filepath.Join(bin, "xdg-open"), `#!/bin/sh
trap 'touch '`+m.dir+`'/interrupted' INT
cp "$1" `+m.dir+`/opened.new && mv `+m.dir+`/opened.new `+m.dir+`/opened.html
echo "$1" >`+m.dir+`/from.new && mv `+m.dir+`/from.new `+m.dir+`/from
while test -e `+m.dir+`/from; do sleep 0.1; done
`)
	require.NoError(t, os.Chmod(filepath.Join(bin, "xdg-open"), 0o755))
	tmux, shows := m.terminal("PATH="+bin+":"+os.Getenv("PATH"), "DISPLAY=:0")
	executable, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	tmux("send-keys", "-l", "clear; "+executable+" dashboard busy; echo code $?")
	tmux("send-keys", "Enter")
	from := filepath.Join(m.dir, "from")
	require.Eventually(t, func() bool { _, err := os.Stat(from); return err == nil }, time.Minute, 10*time.Millisecond)
	file, err := os.ReadFile(from)
	require.NoError(t, err)
	tmux("send-keys", "C-c")
	shows(`(?s)^` + regexp.QuoteMeta(address[:30]) + `.*code 130\s+>\s*$`)
	assert.NoFileExists(t, strings.TrimSpace(string(file)))
	assert.NoFileExists(t, filepath.Join(m.dir, "interrupted"))
	require.NoError(t, os.Remove(from))

	page, _, _ := strings.Cut(address, "?")
	tab := b.Open(t, "file://"+filepath.Join(m.dir, "opened.html"), 1400, "light", page)
	require.Eventually(t, func() bool { return tab.Eval("document.querySelector('#status')?.textContent") == "running" }, time.Minute, 50*time.Millisecond)
	assert.Equal(t, page, tab.Eval("location.href"))
}

// fiber run --dashboard has a program serve its page that does not import what it takes, whether it is a file or a folder, and changes nothing in that.
func TestDashboardOfThisMachine(t *testing.T) {
	t.Parallel()
	m := newOnMachine(t)
	name, cmd, _ := m.start()
	_, stderr, code := m.fiber("dashboard", name)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, name+" serves no page: start it with fiber run --dashboard")
	assert.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	_, stderr, code = m.fiber("dashboard", name)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, name+" does not answer")
	_, _, code = m.fiber("stop", "--now", name)
	assert.Zero(t, code)

	for target, program := range map[string]string{"./testdata/busy": "busy", "testdata/busy/main.go": "main"} {
		run, address := m.served(target, program)
		assert.Regexp(t, `^http://127\.0\.0\.1:\d+/\?token=\w+$`, address)
		assert.Contains(t, recording(t, address), `"Program":"`+program+`"`)
		_, stderr, code = m.fiber("stop", program)
		assert.Zero(t, code, stderr)
		_ = run.Wait()
		assert.Equal(t, 143, run.ProcessState.ExitCode())
	}
	files, err := os.ReadDir("testdata/busy")
	require.NoError(t, err)
	assert.Len(t, files, 1)
}

// A program whose processes are containers runs here as well.
func TestProgramsOnDockerAreListed(t *testing.T) {
	t.Parallel()
	if exec.Command("docker", "version").Run() != nil {
		t.Skip("no docker engine answers")
	}
	m := newOnMachine(t)
	name, cmd, _ := m.start("FIBER_BACKEND=docker")
	m.shows(`(?m)^`+name+` +busy +running +2 +\S+ +here \(docker\)\n`, "ps")
	m.shows(`(?m)^nappers-\d +ready `, "top", name)
	_, stderr, code := m.fiber("stop", name)
	assert.Zero(t, code, stderr)
	assert.Equal(t, 143, m.status(cmd).ExitStatus())
}

// fiber top asks a program on the cluster through the API server.
func TestTopOnTheCluster(t *testing.T) {
	c := newOnCluster(t)
	c.dir = "../.."
	const folder = "./cmd/fiber/testdata/busy"
	run := c.follow("run", "-a", "--name", "mine", folder)
	run.says("begins")
	require.Eventually(t, func() bool {
		out, _, _ := c.fiber("top", "mine")
		return regexp.MustCompile(`(?s)^mine  kubernetes · up \d.*s · 3 processes · .*\nnap +nappers +\d+/1000000 .*\nnappers +2 .*\nMainProcess `).MatchString(out) &&
			regexp.MustCompile(`(?m)^nappers-\d +ready +\d+% +[0-9.]+ MiB .* nap #\d+, `).MatchString(out)
	}, 4*time.Minute, 100*time.Millisecond)
	_, stderr, code := c.fiber("top", "-n", c.namespace, "none")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "there is no program none in the namespace "+c.namespace)

	_, stderr, code = c.fiber("run", "--name", "other", "--image", "busybox:1.37", "sleep", "1000")
	assert.Zero(t, code, stderr)
	_, stderr, code = c.fiber("top", "other")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "other does not use Fiber")

	_, stderr, code = c.fiber("dashboard", "mine")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "mine serves no page")

	served := c.follow("run", "-a", "--name", "served", "--dashboard", folder)
	served.says("begins")
	page := c.follow("dashboard", "served")
	page.says("?token=")
	address := strings.TrimSpace(page.stdout())
	assert.Regexp(t, `^http://127\.0\.0\.1:\d+/\?token=\w+$`, address)
	assert.Contains(t, recording(t, address), `"Backend":"kubernetes"`)
	_, stderr, code = c.fiber("stop", "served")
	assert.Zero(t, code, stderr)
	assert.NotZero(t, served.code())
	assert.Zero(t, page.code())
	assert.Contains(t, page.stdout(), "served has ended")

	out, stderr, code := c.fiber("stop", "other", "mine")
	assert.Zero(t, code, stderr)
	assert.ElementsMatch(t, []string{"Stopped other", "Stopped mine"}, strings.Split(strings.TrimSpace(out), "\n"))
	assert.NotZero(t, run.code())
	c.nothingLeft()
}
