//go:build unix

package config

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

// executable checks the mode alone: the program may be for another machine.
func executable(file fs.FileInfo) bool { return file.Mode().Perm()&0o111 != 0 }
