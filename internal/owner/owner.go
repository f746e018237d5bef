// Package owner names the root of a run as the owner of what the run makes, so
// that another run can tell whether the owner of what it finds is still there.
package owner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Name names this process uniquely: the boot of the machine and the namespace of
// process ids, the user, the process id, and the start time.
var Name = sync.OnceValue(func() string {
	return fmt.Sprintf("%s %d %d %s", machine(), os.Getuid(), os.Getpid(), started(os.Getpid()))
})

// machine names the boot of this machine and the namespace of process ids.
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		host, _ := os.Hostname()
		return host
	}
	space, _ := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + "/" + space
}

// started returns when a process was started, "" if there is no such process, if
// it has ended and its parent has yet to hear of it, or if the system does not tell.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	text := string(stat)
	const startTime = 19 // counted from the field after the name
	if fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]); len(fields) > startTime && fields[0] != "Z" {
		return fields[startTime]
	}
	return ""
}

// PID returns the process id of a root of this user's on this machine, 0 if it is gone or elsewhere, or if the system does not tell
// when processes were started.
func PID(name string) int {
	fields := strings.Split(name, " ")
	if len(fields) != 4 || fields[0] != machine() || fields[1] != strconv.Itoa(os.Getuid()) {
		return 0
	}
	pid, err := strconv.Atoi(fields[2])
	if err != nil || fields[3] == "" || started(pid) != fields[3] {
		return 0
	}
	return pid
}

// Gone says whether the run whose root has that name is over. It can tell only for
// this user's runs on this machine, and returns false for all others.
func Gone(name string) bool {
	fields := strings.Split(name, " ")
	if len(fields) != 4 || fields[0] != machine() || fields[1] != strconv.Itoa(os.Getuid()) || fields[3] == "" {
		return false
	}
	pid, err := strconv.Atoi(fields[2])
	return err == nil && started(pid) != fields[3]
}
