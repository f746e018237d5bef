//go:build linux

package warden

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// flags select the two ways to kill a group: a flag that Linux 6.9 knows, and one
// that no kernel knows.
var flags = map[string]int{"by descriptor": processGroup, "by number": 1 << 30}

// group starts a process that leads a group and, if another is set, a second
// process in that group.
func group(t *testing.T, another bool) (leader, *exec.Cmd, int) {
	script := "echo 0; exec sleep 1000"
	if another {
		script = "sleep 1000 & echo $!; exec sleep 1000"
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL); cmd.Wait() })
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(pidfd) })
	var other int
	_, err = fmt.Fscan(bufio.NewReader(out), &other)
	require.NoError(t, err)
	return leader{pidfd: pidfd, pid: cmd.Process.Pid}, cmd, other
}

// state returns the state of a process, "" if there is none.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(stat[strings.LastIndexByte(string(stat), ')')+2:][:1])
}

func TestKillGroup(t *testing.T) {
	for name, flag := range flags {
		for _, reaped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reaped %v", name, reaped), func(t *testing.T) {
				l, cmd, other := group(t, true)
				require.NoError(t, cmd.Process.Kill())
				if reaped {
					cmd.Wait()
				}
				l.killGroup(flag)
				deadline := time.Now().Add(time.Minute)
				for s := state(other); s != "" && s != "Z"; s = state(other) {
					require.True(t, time.Now().Before(deadline), "the other process lives on")
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
}

// A group whose leader has the reused number of another is left alone.
func TestKillGroupWhoseNumberIsTaken(t *testing.T) {
	for name, flag := range flags {
		t.Run(name, func(t *testing.T) {
			l, cmd, _ := group(t, false)
			require.NoError(t, cmd.Process.Kill())
			cmd.Wait()
			var stranger *exec.Cmd
			for try := 0; stranger == nil; try++ {
				require.Less(t, try, 10_000, "the number is not given away")
				if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, l.pid-1), 0); err != nil {
					t.Skip("this needs to choose the number of the next process:", err)
				}
				cmd := exec.Command("sleep", "1000")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				require.NoError(t, cmd.Start())
				if cmd.Process.Pid == l.pid {
					stranger = cmd
				} else {
					cmd.Process.Kill()
					cmd.Wait()
				}
			}
			l.killGroup(flag)
			require.NoError(t, stranger.Process.Signal(syscall.SIGTERM), "it has ended")
			err := stranger.Wait()
			require.EqualError(t, err, "signal: terminated", "it was killed")
		})
	}
}
