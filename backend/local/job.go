package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/output"
)

// outputGrace bounds the wait for the output of a process that has ended:
// programs that it started may hold its pipes open for ever.
const outputGrace = time.Second

// memoryInterval is how often the resident memory of a limited job is read.
const memoryInterval = 100 * time.Millisecond

// job is a process on this machine.
type job struct {
	*lives.Life
	name           string
	host           string
	memory         int // MiB, 0 for no limit
	stdout, stderr io.ReadCloser
	process        *os.Process

	lower atomic.Int32 // lines of the processes below it that are being passed on
	used  atomic.Int64 // the memory for which it is killed
}

func (j *job) ID() string   { return strconv.Itoa(j.process.Pid) }
func (j *job) Host() string { return j.host }

// run starts the process, reports whether that succeeded, and reaps the process when it has ended.
func (j *job) run(cmd *exec.Cmd, spec backend.JobSpec, started chan<- error) {
	// The kernel sends a parent-death signal when the *thread* that forked ends, not the process (prctl(2),
	// PR_SET_PDEATHSIG). So the thread stays until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	j.process = cmd.Process
	out := j.Pass(spec.Stdout, spec.Stderr, func(apart *lives.Apart, errs io.Writer) {
		var reading sync.WaitGroup
		reading.Go(func() { j.pass(j.stdout, apart.Stdout, spec.Stdout) })
		reading.Go(func() { j.pass(j.stderr, errs, spec.Stderr) })
		reading.Wait()
	})
	if j.memory > 0 {
		go j.watchMemory()
	}
	started <- nil
	status := j.status(wait(j.process))
	out.End(outputGrace, func() {
		if j.lower.Load() == 0 { // another process holds the pipes open
			j.stdout.Close()
			j.stderr.Close()
		}
	})
	j.End(status, nil)
}

// pass passes on one output to its end: to own what the process itself writes, which its log keeps, and the lines of its
// children to the writer of the job's output, if that takes them.
func (j *job) pass(from io.ReadCloser, own, to io.Writer) {
	defer from.Close()
	split := &output.Split{Own: own, Lower: func(string, []byte) {}}
	if below, ok := to.(interface {
		Lower(name string, line []byte)
	}); ok {
		split.Lower = func(name string, line []byte) {
			j.lower.Add(1)
			defer j.lower.Add(-1)
			below.Lower(name, line)
		}
	}
	defer split.End()
	io.Copy(split, from)
}

// status returns how the process ended.
func (j *job) status(state *os.ProcessState, err error) backend.ExitStatus {
	if err != nil {
		return backend.ExitStatus{Code: -1, Reason: err.Error()}
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return backend.ExitStatus{Code: state.ExitCode()}
	}
	status := lives.Exited(128 + int(ws.Signal()))
	if used := j.used.Load(); used > 0 {
		status.OOMKilled, status.Reason = true, fmt.Sprintf("used %d MiB of %d MiB", used>>20, j.memory)
	}
	return status
}

func (j *job) Signal(_ context.Context, sig backend.Signal) error {
	s := syscall.SIGTERM
	if sig == backend.Kill {
		s = syscall.SIGKILL
	}
	if err := j.process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("fiber: signalling %s (process %s): %w", j.name, j.ID(), err)
	}
	if sig == backend.Terminate {
		resume(j.process) // a stopped process takes the signal only then
	}
	return nil
}

func (j *job) Remove(ctx context.Context) error {
	return j.Finish(ctx, func() error { return j.Signal(ctx, backend.Kill) })
}

// watchMemory kills the process when more than its limit is resident.
func (j *job) watchMemory() {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for {
		select {
		case <-j.Done():
			return
		case <-tick.C:
		}
		if used := Resident(j.process.Pid); used > int64(j.memory)<<20 {
			j.used.Store(used)
			j.process.Kill()
			return
		}
	}
}

// Resident returns how many bytes that a process has alone are in memory, 0 if that
// is not known: not its executable, nor what it shares with other processes.
func Resident(pid int) int64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat)
	if len(fields) < 3 {
		return 0
	}
	all, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return (all - shared) * int64(os.Getpagesize())
}
