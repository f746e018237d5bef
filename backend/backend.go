// Package backend says what Fiber asks of the thing that runs its jobs: an
// operating system, a container engine, a cluster. A backend starts a job,
// tells how it ends, and signals it; it knows nothing of pools or messages.
package backend

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/fiber-go/fiber/meta"
)

// Backend runs jobs. All methods may be called from many goroutines.
type Backend interface {
	// Name is the backend's name in the configuration.
	Name() string
	// Network says how children of this backend reach this process.
	Network(ctx context.Context) (Network, error)
	// Launch starts a job and returns once the backend has taken it on. An
	// error is a *LaunchError; nothing is then left behind.
	Launch(ctx context.Context, spec JobSpec) (Job, error)
}

// Closer is a backend with something to clear up at the end of a run.
type Closer interface {
	// Close removes what is left of this run's jobs. The backend can be used
	// again.
	Close(ctx context.Context) error
}

// Cluster is a backend that finds room for its jobs by itself: it hands out
// its own GPUs, and takes on many jobs that may have to wait for room.
type Cluster interface{ Cluster() }

// Network is how a child reaches the process that launched it.
type Network struct {
	// Inherit: the child is given an already connected socket.
	Inherit bool
	// Host is the address of this process for its children otherwise, and
	// Bind the one that it listens on; "" is all of this machine's.
	Host string
	Bind string
}

// JobSpec is a job to start.
type JobSpec struct {
	Name       string
	Run        string   // the run's id
	Parent     string   // the name of the process that wants it
	Executable string   // "" for the running one
	Args       []string // behind the program's name
	Env        []string // KEY=value; there may be secrets in it
	Public     []string // more of it, this job's own and without secrets
	Resources  meta.Resources
	Devices    []string // GPUs that are the job's; nil leaves the environment's as they are
	Avoid      []string // machines that a Cluster uses only where no other has room
	// Socket is the child's end of its connection, where Network says
	// Inherit. Launch does not close it.
	Socket SyscallFile
	// Stdout and Stderr receive the job's output as it comes; where they are
	// io.Closers they are closed behind its end.
	Stdout, Stderr io.Writer
}

// SyscallFile is an open file, such as *os.File.
type SyscallFile interface{ Fd() uintptr }

// Job is a started job.
type Job interface {
	// ID names the job where it runs: a process id, a container id, a pod.
	ID() string
	// Host is the machine that it runs on, "" when it is not known yet.
	Host() string
	// Wait blocks until the job has ended and its output has been read. An
	// error is the ctx's, or a *LaunchError of a job that was taken on but
	// could not be started.
	Wait(ctx context.Context) (ExitStatus, error)
	// Events tells what happens to the job; it is closed at its end. Events
	// that nobody reads are dropped, oldest first.
	Events() <-chan Event
	// Signal asks the job to end, or ends it. No error if it has ended.
	Signal(ctx context.Context, sig Signal) error
	// Logs reads the output kept so far and, with Follow, what comes.
	Logs(ctx context.Context, opts LogOptions) (io.ReadCloser, error)
	// Remove ends the job if it runs and forgets it.
	Remove(ctx context.Context) error
}

// Signal is what a job can be told.
type Signal int

// The signals.
const (
	Terminate Signal = iota // end, in your own time
	Kill                    // end now
)

// ExitStatus is how a job ended.
type ExitStatus struct {
	Code      int            // exit code; 128+n when signal n ended it
	Signal    syscall.Signal // 0 when it exited by itself
	OOMKilled bool           // it used more memory than it may
	Reason    string         // what the backend adds, "" for nothing
}

func (s ExitStatus) String() string {
	text := fmt.Sprintf("exit code %d", s.Code)
	if s.Signal != 0 {
		text = fmt.Sprintf("signal: %v", s.Signal)
	}
	if s.OOMKilled {
		text += ", OOMKilled"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// EventKind is what an event tells.
type EventKind string

// The events.
const (
	Pending EventKind = "pending" // it waits, with a reason
	Placed  EventKind = "placed"  // it has a machine, of a Cluster's
	Started EventKind = "started"
	Ended   EventKind = "ended"
)

// Event is a change in a job's life.
type Event struct {
	Kind   EventKind
	Reason string
}

// LogOptions say which logs to read.
type LogOptions struct {
	Follow bool // go on until the job ends
}

// LaunchError is a job that could not be started, in the backend's own words.
type LaunchError struct {
	Backend string
	Job     string
	Reason  string
	Err     error
	// Permanent says that it makes no sense to try again.
	Permanent bool
}

func (e *LaunchError) Error() string {
	job := e.Job
	if job == "" { // it fails for all
		job = "processes"
	}
	text := fmt.Sprintf("fiber: cannot start %s on %s", job, e.Backend)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Err != nil {
		text += ": " + strings.TrimPrefix(e.Err.Error(), "fiber: ")
	}
	return text
}

func (e *LaunchError) Unwrap() error { return e.Err }
