//go:build unix

package runs

import (
	"os"
	"syscall"
)

// own reports whether something is a directory, and this user's alone.
func own(info os.FileInfo) bool {
	return info.IsDir() && info.Mode().Perm()&0o077 == 0 && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
}
