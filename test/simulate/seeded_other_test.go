//go:build !linux

package simulate

import (
	"os"
	"os/exec"
)

// abort ends a copy.
var abort = os.Kill

// startSeeded starts a program. Which case of a select it takes, and where its loops over maps begin, follows from a seed on
// Linux alone.
func startSeeded(cmd *exec.Cmd, _ uint64) error { return cmd.Start() }
