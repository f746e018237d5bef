package tree

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/output"
	"github.com/fiber-go/fiber/internal/self"
)

// lookAgain is how often a job is looked at that comes up.
const lookAgain = 100 * time.Millisecond

// The last of a job's stderr goes into errors.
const (
	stderrKept  = 8 << 10 // bytes
	stderrLines = 20
)

// job is a job that this process has its backend run: that of a child or, in the
// root, of a process below.
type job struct {
	backend.Job
	node   *Node
	name   string
	avoid  []string    // the machines that it was to avoid
	stderr *output.Log // the end of it
}

// launch has the backend run a job of this run. Its output is passed on. If the
// root has started the process for this one, the root passes its output on, and
// this process does not.
func (n *Node) launch(ctx context.Context, spec backend.JobSpec) (_ *job, err error) {
	j := &job{node: n, name: spec.Name, avoid: spec.Avoid, stderr: output.New(stderrKept)}
	stdout := &lines{node: n, name: printable(spec.Name)}
	stderr := &lines{node: n, name: stdout.name, copy: j.stderr}
	if _, relayed := n.Backend.(*relay); n.Config.ForwardLogs.Enabled() && !relayed {
		stdout.to, stderr.to = self.Of().Stdout, self.Of().Stderr
	}
	n.forwarding.Add(2) // the backend closes them when the process has written everything
	output := &delivered{node: n, name: spec.Name}
	if network, err := n.Network(ctx); err == nil && !network.Inherit {
		spec.Delivery = output
		if network.Shares {
			if spec.Directory, err = n.Segments.Directory(ctx); err != nil {
				spec.Directory = "" // its values are sent as bytes
			}
		}
	}
	spec.Run, spec.Executable, spec.Args = n.Run, n.Config.Executable, os.Args[1:]
	spec.Stdout, spec.Stderr = stdout, stderr
	if j.Job, err = n.Backend.Launch(ctx, spec); err == nil && j.Job == nil {
		err = &backend.LaunchError{Backend: n.Backend.Name(), Reason: "its Launch has returned nil and no error", Permanent: true}
	}
	if err != nil {
		output.close()
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	return j, nil
}

// lastLines returns the last lines of the job's stderr.
func (j *job) lastLines() []string { return j.stderr.Lines(stderrLines) }

// progress is how far a job has come: see [backend.Job].
type progress struct {
	Host    string
	Reason  string
	Pending bool
}

// follow calls tell with the job's progress, and whenever that has changed, until ctx
// ends. It returns errAvoided if meanwhile the job's machine came to be avoided,
// other than those that the job was to avoid anyway: that machine may be dead, and
// silent until the start timeout.
func (j *job) follow(ctx context.Context, tell func(progress)) error {
	again := time.Tick(lookAgain)
	for last := (*progress)(nil); ctx.Err() == nil; {
		now := progress{Host: j.Host()}
		now.Reason, now.Pending = j.waits()
		if j.node.fails(now.Host) && !slices.Contains(j.avoid, now.Host) {
			return errAvoided
		}
		if last == nil || now != *last {
			tell(now)
			last = &now
		}
		select {
		case <-again:
		case <-ctx.Done():
		}
	}
	return nil
}

// waits returns what the job waits for, and whether it has yet to start.
func (j *job) waits() (reason string, pending bool) {
	if w, can := j.Job.(backend.Waiter); can {
		return w.Pending()
	}
	return "", false
}

// signal signals the job and returns when that is done.
func (j *job) signal(sig backend.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), engineGrace)
	defer cancel()
	if err := j.Signal(ctx, sig); err != nil {
		j.node.Log.Warn("fiber: a process could not be signalled", "process", j.name, "id", j.ID(), "error", err)
	}
}

// remove removes the job from the backend.
func (j *job) remove(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := j.Remove(ctx); err != nil {
		j.node.Log.Warn("fiber: a job was not removed", "process", j.name, "id", j.ID(), "error", err)
	}
}

const (
	// recently is how long recent remembers a key.
	recently = time.Minute
	// maxRecent is how many keys it remembers. When there are more, as if each reason
	// were another, the next ones count as known.
	maxRecent = 1000
)

// recent remembers keys: a hundred processes that wait for the same reason are
// worth one warning, and a host that does not answer is not dialled again at once.
type recent struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// add remembers a key, and says whether it was not remembered before.
func (r *recent) add(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.keys[key]; known || len(r.keys) == maxRecent {
		return false
	}
	if r.keys == nil {
		r.keys = map[string]struct{}{}
	}
	r.keys[key] = struct{}{}
	self.AfterFunc(recently, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.keys, key)
	})
	return true
}

// has says whether a key is remembered.
func (r *recent) has(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.keys[key]
	return known
}
