package docker

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sweepAge is how old a container must be that never ran, and of whose run
// nothing can be told, to be taken for forgotten.
const sweepAge = time.Hour

// master names the first process of this run: which start of which machine,
// which space of process ids in it, which id, started when.
var master = sync.OnceValue(func() string { return masterOf(os.Getpid()) })

func masterOf(pid int) string {
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

// forgotten says whether the run that a label names is this user's, of this
// machine, and over. Of others nothing can be told.
func forgotten(label string) bool {
	fields := strings.Split(label, " ")
	if len(fields) != 4 || fields[0] != machine() || fields[1] != strconv.Itoa(os.Getuid()) || fields[3] == "" {
		return false
	}
	pid, err := strconv.Atoi(fields[2])
	return err == nil && started(pid) != fields[3]
}

// sweep removes the containers of this user's runs whose first process was
// killed. Those that run end by themselves, soon, and are not waited for; this
// is for what could not, such as a container that was never started.
func (e *engine) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all, err := e.labelled(ctx, labelMaster)
	if err != nil {
		return
	}
	var removals sync.WaitGroup
	for _, c := range all {
		old := c.State == "created" && time.Since(time.Unix(c.Created, 0)) > sweepAge
		if old || forgotten(c.Labels[labelMaster]) {
			removals.Go(func() { e.remove(ctx, c.ID) })
		}
	}
	removals.Wait()
}
