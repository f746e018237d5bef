package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/container/output"
)

// outputGrace bounds the wait for the output of a process that has ended:
// programs that it started may hold its pipes open for ever.
const outputGrace = time.Second

// memoryInterval is how often the resident memory of a limited job is read.
const memoryInterval = 100 * time.Millisecond

// job is a process on this machine. Its events are Started and Ended: it is never Pending.
type job struct {
	*lives.Life
	name    string
	host    string
	process *os.Process
	output  sync.WaitGroup // the two pumps

	mu     sync.Mutex
	ended  bool
	oom    bool
	reason string
}

func (j *job) ID() string   { return strconv.Itoa(j.process.Pid) }
func (j *job) Host() string { return j.host }

// pump passes on one stream of what the process writes.
type pump struct {
	from    *os.File
	to      io.Writer
	log     *output.Log
	writing atomic.Bool
}

// run passes the output on until the process's end of the pipe closes. The log
// keeps what the process itself writes, not what its children do.
func (p *pump) run() {
	defer p.from.Close()
	if c, ok := p.to.(io.Closer); ok {
		defer c.Close()
	}
	to := &output.Split{Own: io.MultiWriter(p.log, p.to), Lower: func(string, []byte) {}}
	if below, ok := p.to.(interface {
		Lower(name string, line []byte)
	}); ok {
		to.Lower = below.Lower
	}
	defer to.End()
	buf := make([]byte, 8<<10)
	for {
		n, err := p.from.Read(buf)
		if n > 0 {
			p.writing.Store(true)
			to.Write(buf[:n])
			p.writing.Store(false)
		}
		if err != nil {
			return
		}
	}
}

// reap waits for the process, kills its group, and waits for its output.
func (j *job) reap(pumps ...*pump) {
	state, err := wait(j.process)
	j.mu.Lock()
	j.ended = true
	status := backend.ExitStatus{OOMKilled: j.oom, Reason: j.reason}
	j.mu.Unlock()
	if err != nil {
		status.Code, status.Reason = -1, err.Error()
	} else if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status.Signal = ws.Signal()
		status.Code = 128 + int(ws.Signal())
	} else {
		status.Code = state.ExitCode()
	}
	read := make(chan struct{})
	go func() { j.output.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(outputGrace):
		// Another process holds the pipes open, so they are given up; or the
		// writer that takes the output blocks: then the rest follows later.
		for _, p := range pumps {
			if !p.writing.Load() {
				p.from.SetReadDeadline(time.Now())
			}
		}
	}
	j.End(status, nil)
	released()
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

// watchMemory kills the process when it has more than limit MiB resident.
func (j *job) watchMemory(limit int) {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for {
		select {
		case <-j.Done():
			return
		case <-tick.C:
		}
		used := Resident(j.process.Pid)
		if used <= int64(limit)<<20 {
			continue
		}
		j.mu.Lock()
		if !j.ended {
			j.oom = true
			j.reason = fmt.Sprintf("used %d MiB of %d MiB", used>>20, limit)
		}
		j.mu.Unlock()
		j.process.Kill()
		return
	}
}

// Resident returns how many bytes of a process are in memory, 0 if that is not
// known.
func Resident(pid int) int64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
