package fiber

import (
	"context"
	"os/exec"

	"github.com/fiber-go/fiber/internal/warden"
)

// Command is [exec.CommandContext] for a program that must not outlive this
// process. On Linux it is killed, with all that it has started, when this
// process has ended in any way, SIGKILL included, and in the main process at
// [Shutdown]. Whatever thread starts it, it lives as long as the process.
//
// In a process that Fiber has started this holds for every program, however it
// was started: on this machine they are in the process group of their Fiber
// process, which is killed when that has ended, and in a container they end with
// the container. In the main process it holds for those of Command alone. On
// this machine neither reaches a program that leaves its process group, by
// setsid or setpgid. A command is not in the terminal's foreground group:
// Ctrl-C does not reach it, the end of ctx does, and it is stopped when it reads
// from the terminal.
//
// On other systems than Linux, what a Fiber process has started is killed by the
// parent of that process; a parent that was killed itself cannot do so, and
// nothing ends the main process's commands.
//
// The command's SysProcAttr may be changed but not replaced. Its Start fails
// with [ErrNotInitialized] before Init, and after Shutdown.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
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
