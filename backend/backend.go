// Package backend is the contract between Fiber and what runs its jobs: an
// operating system, a container engine or a cluster. A backend starts a job,
// signals it and reports how it ended; it knows nothing of pools or messages.
package backend

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/fiber-go/fiber/meta"
)

// Backend runs jobs. All methods may be called from many goroutines, and return soon
// after the end of a context that they are given.
type Backend interface {
	// Name is the backend's name in the configuration.
	Name() string
	// Network returns how children of this backend reach this process.
	Network(ctx context.Context) (Network, error)
	// Launch starts a job and returns once the backend has accepted it, or
	// ctx ends. An error is always a *LaunchError, and then nothing is left
	// behind: what an engine finishes after the end of ctx is undone in the
	// background, and Close waits for that.
	Launch(ctx context.Context, spec JobSpec) (Job, error)
}

// Closer is a backend that cleans up at the end of a process.
type Closer interface {
	// Close removes what is left of the jobs that this backend has launched, and of no
	// others: each process has a backend of its own, and closes it at its end, in
	// the middle of the run for most. The backend may be used again afterwards.
	Close(ctx context.Context) error
}

// Network is how a child reaches the process that launched it.
type Network struct {
	// Inherit: the child inherits a connected socket.
	Inherit bool
	// Without Inherit, children dial Host, and this process listens on Bind;
	// "" listens on all addresses of this machine.
	Host string
	Bind string // an address, without a port
	// Shares: children that do not inherit a socket see JobSpec.Directory, and so have one copy of a large shared value.
	Shares bool
}

// JobSpec is a job to start.
type JobSpec struct {
	Name       string         // the process's name
	Run        string         // the run's id
	Parent     string         // the name of the process that starts it
	Executable string         // "" for the running one
	Args       []string       // without the program's name
	Env        []string       // KEY=value; may contain secrets
	Public     []string       // further variables, for this job only, without secrets
	Resources  meta.Resources // what the job needs
	Devices    []string       // the job's GPUs; nil leaves the environment's as they are
	Avoid      []string       // machines that an Avoider uses only if no other has room
	// Socket is the child's end of its connection, if Network says Inherit.
	// Launch does not close it.
	Socket *os.File
	// Directory is a directory of this machine that the job sees at the same path, if Network says Shares, and may only
	// read; "" for none.
	Directory string
	// Stdout and Stderr receive the job's output as it comes. If they are
	// io.Closers, they are closed after its end.
	Stdout, Stderr io.Writer
	// Delivery is for a backend that knows the output only from logs that may
	// lose some of it; nil if there is no other way.
	Delivery Delivery
}

// Delivery brings the output of a job from the init above its program to this
// process: whole, in order, and no faster than this process passes it on.
type Delivery interface {
	// Target returns how the init finds this process: the value of the variable
	// FIBER_OUTPUT in its environment.
	Target(ctx context.Context) (string, error)
	// Read passes the output on to its end, and reports whether it has come so
	// far. Otherwise ctx has ended; or the job has, which closes ended; or the
	// init has not come, although the job has started.
	Read(ctx context.Context, started, ended <-chan struct{}, to Joined) (whole bool)
}

// Joined takes the output of a job as its init joins it in one stream.
type Joined interface {
	io.Writer
	// Missing says that n bytes are missing, where and why.
	Missing(n int64, why string)
}

// Job is a started job.
type Job interface {
	// ID names the job where it runs: a process id, a container id, a pod.
	ID() string
	// Host is the machine that the job runs on, "" while unknown.
	Host() string
	// Wait blocks until the job has ended and its output has been read. Its
	// error is that of ctx, or a *LaunchError if the job was accepted but
	// could not be started.
	Wait(ctx context.Context) (ExitStatus, error)
	// Signal asks the job to end, or ends it. Signalling a job that has ended
	// is no error.
	Signal(ctx context.Context, sig Signal) error
	// Logs reads the output kept so far and, with follow, what comes after until
	// the job ends.
	Logs(ctx context.Context, follow bool) (io.ReadCloser, error)
	// Remove kills the job if it is still running, and forgets it.
	Remove(ctx context.Context) error
}

// Signal tells a job to end.
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
	OOMKilled bool           // it exceeded its memory
	Reason    string         // the backend's own words, "" for none
}

// String returns how the job ended, in a few words.
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

// LaunchError is a job that could not be started, in the backend's own words.
type LaunchError struct {
	Backend string   // its name
	Job     string   // its name, "" if no job could be started
	Reason  string   // "" if Err says it
	Err     error    // what the start failed with, or nil
	Stderr  []string // the last lines of what was started and then ended
	// Permanent: trying again would fail in the same way.
	Permanent bool
}

// Error returns one line.
func (e *LaunchError) Error() string {
	job := e.Job
	if job == "" { // no job could be started
		job = "processes"
	}
	return strings.TrimSuffix(fmt.Sprintf("fiber: cannot start %s on %s: %s", job, e.Backend, e.Why()), ": ")
}

// Format prints the error; %+v prints Stderr as well, and all that Err says.
func (e *LaunchError) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
	if verb == 'v' && s.Flag('+') {
		for _, line := range e.Stderr {
			fmt.Fprintf(s, "\n\t%s", line)
		}
		if _, rest, more := strings.Cut(fmt.Sprintf("%+v", e.Err), "\n"); more {
			fmt.Fprintf(s, "\n%s", rest)
		}
	}
}

// Why returns the reason and the error's text.
func (e *LaunchError) Why() string {
	if e.Err == nil {
		return e.Reason
	}
	return strings.TrimPrefix(e.Reason+": "+strings.TrimPrefix(e.Err.Error(), "fiber: "), ": ")
}

// Unwrap returns Err.
func (e *LaunchError) Unwrap() error { return e.Err }
