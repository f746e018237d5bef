//go:build unix

package fibertest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat is a line of /proc/PID/stat, behind the command's name.
func Stat(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// Running says whether a process is there, and is not only waited for.
func Running(pid int) bool {
	f := Stat(pid)
	return len(f) > 1 && f[0] != "Z" && f[0] != "X"
}

// Pids lists the processes of this machine.
func Pids() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// ChildrenOf lists those that a process has started.
func ChildrenOf(parent int) (children []int) {
	for _, pid := range Pids() {
		if f := Stat(pid); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

// CommandOf is a process's command line.
func CommandOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(b), "\x00", " ")
}

// Halted says whether all threads of a process are stopped.
func Halted(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread.Name()))
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) == 0 || f[0] != "T" {
			return false
		}
	}
	return err == nil
}
