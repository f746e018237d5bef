//go:build unix

package runs

import (
	"os"
	"syscall"
)

// own reports whether a directory is this user's alone.
func own(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o077 == 0 && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
}
