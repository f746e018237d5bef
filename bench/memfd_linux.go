package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns an empty file without a name, in memory.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("bench", unix.MFD_CLOEXEC)
	return os.NewFile(uintptr(fd), "memory"), os.NewSyscallError("memfd_create", err)
}
