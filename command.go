package fiber

import (
	"context"
	"os/exec"

	"github.com/fiber-go/fiber/internal/warden"
)

// Command is [exec.CommandContext] for a program that must not outlive this
// process. On Linux the program is killed, with everything it has started, when
// this process has ended in any way, SIGKILL included; in the root, also at
// [Shutdown]. The program lives on when the thread that started it ends.
//
// In a process that Fiber has started, all this holds for every program,
// however it was started: on this machine, programs are in the process group of
// their Fiber process, which is killed when that process has ended; in a
// container, they end with the container. In the root it holds only for
// programs that Command has made. On this machine a program that leaves its
// process group, by setsid or setpgid, is not reached in either case.
//
// A command is not in the terminal's foreground group. So Ctrl-C does not reach
// it, but the end of ctx does, and it is stopped when it reads from the
// terminal.
//
// On systems other than Linux, the parent of a Fiber process kills the programs
// that this process has started; a parent that was killed itself cannot do so,
// and nothing ends the root's commands.
//
// The command's SysProcAttr may be changed but not replaced. Its Start fails
// with [ErrNotInitialized] before Init and after Shutdown.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if ctx == nil {
		cmd := exec.Command(name, args...)
		cmd.Err = errNilContext
		return cmd
	}
	cmd := exec.CommandContext(ctx, name, args...)
	p, err := running()
	if err == nil && p.node.Parent == nil {
		err = warden.Cover(cmd)
	}
	if cmd.Err == nil {
		cmd.Err = err
	}
	return cmd
}
