// Package root names the first process of a run, so that a later one can
// tell whether what it finds belongs to a run that is over.
package root

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Name names this process: which start of which machine, which space of
// process ids in it, which user and id, started when.
var Name = sync.OnceValue(func() string { return nameOf(os.Getpid()) })

func nameOf(pid int) string {
	return machine() + " " + strconv.Itoa(os.Getuid()) + " " + strconv.Itoa(pid) + " " + started(pid)
}

// machine names the start of a machine and the space of process ids.
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		host, _ := os.Hostname()
		return host
	}
	space, _ := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + "/" + space
}

// started is when a process was started, "" when there is none, or where that
// cannot be told.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if i := strings.LastIndex(string(stat), ") "); i >= 0 {
		rest = string(stat)[i+2:]
	}
	const startTime = 19 // of the fields behind the name
	if fields := strings.Fields(rest); len(fields) > startTime {
		return fields[startTime]
	}
	return ""
}

// Gone says whether the run of a first process by that name is this user's, of this
// machine, and over. Of others nothing can be told.
func Gone(name string) bool {
	fields := strings.Split(name, " ")
	if len(fields) != 4 || fields[0] != machine() || fields[1] != strconv.Itoa(os.Getuid()) || fields[3] == "" {
		return false
	}
	pid, err := strconv.Atoi(fields[2])
	return err == nil && started(pid) != fields[3]
}
