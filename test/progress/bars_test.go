//go:build unix

package progress_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/bars"
	"github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/stdio"
	"github.com/fiber-go/fiber/progress"
	"github.com/fiber-go/fiber/test/fibertest"
)

// terminal is a tmux with a program in it.
type terminal struct {
	*testing.T
	dir string
}

// show runs a program in a terminal, which says with which code it ended.
func show(t *testing.T, program string, columns int, env ...string) *terminal {
	exe, err := os.Executable()
	require.NoError(t, err)
	x := &terminal{t, t.TempDir()}
	command := "exec env -u NO_COLOR " + fibertest.ProgramKey + "='" + program + "' FIBER_BACKEND=local DIR='" + x.dir + "' "
	for _, kv := range env {
		command += "'" + kv + "' "
	}
	command = "(" + command + exe + "); echo \"code $?\"; exec cat"
	x.tmux("-u", "-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(columns), "-y", "30", command)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows\n%s", strings.Join(x.lines(), "\n"))
		}
		x.tmux("kill-server")
	})
	return x
}

func (x *terminal) tmux(args ...string) string {
	out, err := exec.CommandContext(fibertest.Soon(x), "tmux", append([]string{"-S", filepath.Join(x.dir, "tmux")}, args...)...).CombinedOutput()
	require.NoError(x, err, "tmux %v: %s", args, out)
	return string(out)
}

// lines returns what the terminal shows.
func (x *terminal) lines() []string {
	return strings.Split(strings.TrimRight(x.tmux("capture-pane", "-p"), "\n"), "\n")
}

// becomes waits until the last lines of the terminal are like these, and returns them all.
func (x *terminal) becomes(like ...string) []string {
	x.Helper()
	want := regexp.MustCompile("(?s)(^|\n)" + strings.Join(like, "\n") + "$")
	var lines []string
	fibertest.Eventually(x, fibertest.Patience, func() bool {
		lines = x.lines()
		return want.MatchString(strings.Join(lines, "\n"))
	}, "the terminal shows "+want.String())
	return lines
}

func (x *terminal) open(gate string) { fibertest.OpenGate(x, filepath.Join(x.dir, gate)) }

// once says that each text is in one line.
func (x *terminal) once(lines []string, texts ...string) {
	x.Helper()
	for _, text := range texts {
		require.Equal(x, 1, strings.Count(strings.Join(lines, "\n"), text), text)
	}
}

// Bars stay at the bottom, in the order in which their calls began, whatever is printed, however wide the terminal is, and
// whether it becomes narrower.
func TestBarsInATerminal(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bars", "follower"} {
		for columns, bar := range map[int][2]string{
			40:  {`call %s   50%%  5/10  .*`, `call %s  100%%  10/10  in \d+s`},
			200: {`call %s  \[#{20}-{20}\]   50%%  5/10 .* 2 up`, `call %s  \[#{40}\]  100%%  10/10  in \d+s`},
		} {
			t.Run(fmt.Sprintf("%s/%d", program, columns), func(t *testing.T) {
				t.Parallel()
				x := show(t, program, columns)
				one, two := fmt.Sprintf(bar[0], "one"), fmt.Sprintf(bar[0], "two")
				lines := x.becomes(one, two)
				x.once(lines, "call one", "call two", "a worker speaks of one loudly", "a worker speaks of two loudly")
				for _, l := range lines {
					require.Less(t, len(l), columns)
				}
				x.open("say")
				said := ".* log speaks\n.*slog speaks\n.*the program speaks"
				if program == "follower" { // its stdout and stderr are two streams
					said = "(?:.*speaks\n){2}.*speaks"
				}
				lines = x.becomes(said, one, two)
				x.once(lines, "call one", "call two", "slog speaks", "the program speaks")

				x.tmux("resize-window", "-x", strconv.Itoa(min(columns-2, 60)), "-y", "20")
				fibertest.Eventually(t, fibertest.Patience, func() bool { // the next redraw repairs what the wrapping did
					lines = x.lines()
					return strings.Count(strings.Join(lines, "\n"), "call ") == 2 && strings.HasPrefix(lines[len(lines)-1], "call two") &&
						strings.HasPrefix(lines[len(lines)-2], "call one")
				}, "it follows")
				x.once(lines, "slog speaks", "the program speaks")
				x.tmux("resize-window", "-x", strconv.Itoa(columns), "-y", "30")

				x.open("two")
				done := fmt.Sprintf(bar[1], "two")
				x.once(x.becomes(done, one), "call one", "call two")
				x.open("one")
				x.once(x.becomes(done, fmt.Sprintf(bar[1], "one"), "code 0"), "call one", "call two")
				require.Equal(t, "1\n", x.tmux("display-message", "-p", "#{cursor_flag}"))
			})
		}
	}
}

// After Ctrl-C, and after a failure, the bars are lines like any others, and what follows begins a line.
func TestBarsOfAProgramThatFails(t *testing.T) {
	t.Parallel()
	t.Run("Ctrl-C", func(t *testing.T) {
		t.Parallel()
		x := show(t, "bars", 120)
		x.becomes("call one .* 5/10 .*", "call two .* 5/10 .*")
		x.tmux("send-keys", "C-c")
		lines := x.becomes(".*", "code 130")
		x.once(lines, "call one", "call two")
		require.Equal(t, 2, strings.Count(strings.Join(lines, "\n"), "5/10  ended after "))
	})
	t.Run("the end", func(t *testing.T) {
		t.Parallel()
		x := show(t, "bars", 120, "LEAVE=yes")
		x.becomes("call one .* 5/10 .*", "call two .* 5/10 .*")
		x.open("say")
		x.once(x.becomes("call .* 5/10  ended after .*", "call .* 5/10  ended after .*", "code 0"), "call one", "call two")
	})
	t.Run("a failure", func(t *testing.T) {
		t.Parallel()
		x := show(t, "bars", 120, "FAIL=yes")
		x.becomes("call one .* 5/10 .*", "call two .* 5/10 .*")
		x.open("say")
		x.open("two")
		lines := x.becomes("call one .* 5/10  ended after .*", "fiber: task 9: run in .*no luck\n.*fiber: the run has failed: .*", "code 1")
		x.once(lines, "call one", "call two")
		require.Regexp(t, `call two .* 10/10  in \d+s  1 failed`, strings.Join(lines, "\n"))
	})
}

// NO_COLOR is heeded, and otherwise there are colors.
func TestColors(t *testing.T) {
	t.Parallel()
	for _, none := range []bool{true, false} {
		x := show(t, "bars", 120, fmt.Sprintf("NO_COLOR=%s", map[bool]string{true: "1"}[none]))
		x.becomes("call one .* 5/10 .*", "call two .* 5/10 .*")
		require.Equal(t, !none, strings.Contains(x.tmux("capture-pane", "-p", "-e"), "\x1b["))
	}
}

// Without a terminal there are plain lines, and nothing else.
func TestBarsWithoutATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, gate := range []string{"say", "one", "two"} {
		fibertest.OpenGate(t, filepath.Join(dir, gate))
	}
	x := fibertest.Start(t, "bars", "DIR="+dir, "FIBER_BACKEND=local")
	require.Zero(t, x.Wait(fibertest.Patience))
	require.Contains(t, x.Out.String(), "the program speaks\n")
	for _, name := range []string{"one", "two"} {
		require.Contains(t, x.Out.String(), "a worker speaks of "+name)
		require.Regexp(t, `(?m)^call `+name+`  100%  10/10  in \d+s$`, x.Err.String())
	}
	require.NotContains(t, x.Err.String()+x.Out.String(), "\x1b")
}

// A program that is followed sends its bars along; its children don't know that it is, nor do they warn.
func TestBarsOfAProgramThatIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := fibertest.Start(t, "bars", "DIR="+dir, "FIBER_BACKEND=local", stdio.FollowerKey+"="+stdio.Terminal)
	var own strings.Builder
	last := map[string]bars.Bar{}
	look := func() {
		own.Reset()
		split := &output.Split{Own: &own, Lower: func(kind string, payload []byte) {
			var b bars.Bar
			require.Equal(t, "progress", kind)
			require.NoError(t, json.Unmarshal(payload, &b))
			last[b.Label] = b
		}}
		split.Write([]byte(x.Err.String()))
		split.End()
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { look(); return last["call one"].Done == 5 && last["call two"].Done == 5 }, "it sends them")
	x.SignalRoot(syscall.SIGTERM)
	require.Equal(t, 143, x.Wait(fibertest.Patience))
	look()
	require.True(t, last["call one"].Over && last["call two"].Over)
	require.Regexp(t, "(?m)^a worker speaks of one $", x.Out.String())
	require.NotContains(t, own.String(), "call")
	require.NotContains(t, own.String(), stdio.FollowerKey)
}

// Each call has a bar, whose option may be used again, and beside OnProgress.
func TestABarForEachCall(t *testing.T) {
	if fibertest.Alone(t) {
		return
	}
	pool := fibertest.NewPool(t, 2)
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = stderr }()
	told := 0
	bar, ins := progress.Bar(""), fibertest.Numbers(10)
	for range 2 {
		_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, ins, bar, fiber.OnProgress(func(p fiber.Progress) { told = p.Done }))
		require.NoError(t, err)
		require.Equal(t, 10, told)
		told = 0
	}
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 3, bar)
	require.NoError(t, err)
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`100%  10/10  in \d+s\n`).FindAll(text, -1), 2)
	require.Len(t, regexp.MustCompile(`100%  1/1  in \d+s\n`).FindAll(text, -1), 1)
}
