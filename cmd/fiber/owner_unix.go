//go:build unix

package main

import (
	"os"
	"syscall"
)

// owner returns the owner of a folder, -1 if that is not known.
func owner(dir string) (uid, gid int) {
	info, err := os.Stat(dir)
	if err != nil {
		return -1, -1
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(s.Uid), int(s.Gid)
}
