package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/meta"
)

// Where an engine runs the jobs, the root alone asks it for them. What another
// process wants of it passes up the tree as a jobRequest; relay.go is the side
// that asks, this file the one that serves.
//
// Who asks may be in somebody else's hands. It chooses how its children are
// called, what they need, which machines they avoid, and what is in their environment,
// of which a backend leaves out what would mean something outside of the container. All else is the
// root's: the executable, the arguments, the run, whose child it is, and which
// GPUs are lent to whom. A process reaches the jobs that it, or a process below
// it, has asked for.

// What is wanted of a job.
const (
	jobLaunch = "launch"
	jobWait   = "wait"
	jobEvent  = "event" // wait for the next one
	jobSignal = "signal"
	jobLogs   = "logs" // open them
	jobRead   = "read" // from them
	jobClose  = "close"
	jobRemove = "remove"
)

// jobRequest is what a process below wants of a job.
type jobRequest struct {
	Do     string
	Job    string         // its id; launch: none yet
	Spec   jobSpec        // launch
	Within time.Duration  // launch: how long it may take, 0 for ever
	Signal backend.Signal // signal
	Follow bool           // logs
	Reader uint64         // read, close
}

// jobSpec is what a process below may say of a backend.JobSpec.
type jobSpec struct {
	Name      string
	Env       []string
	Bootstrap string
	Resources meta.Resources
	Devices   []string
	NoDevices bool // Devices is empty and not nil
	Avoid     []string
}

// jobAnswer is what comes of it.
type jobAnswer struct {
	Launched string // the id of a job that was launched just now
	Host     string
	Status   backend.ExitStatus
	Tail     []byte // wait: the end of its stderr
	Event    backend.Event
	Reader   uint64 // logs
	Data     []byte // read: none at the end
	Failure  *jobFailure
}

// jobFailure is a backend's error that can travel.
type jobFailure struct {
	Launch    bool // it is a *backend.LaunchError
	Backend   string
	Job       string
	Reason    string
	Permanent bool
	Canceled  bool
	Deadline  bool
}

func failureOf(err error) *jobFailure {
	f := &jobFailure{Reason: err.Error(), Canceled: errors.Is(err, context.Canceled), Deadline: errors.Is(err, context.DeadlineExceeded)}
	if launch := (*backend.LaunchError)(nil); errors.As(err, &launch) {
		f.Launch, f.Backend, f.Job, f.Reason, f.Permanent = true, launch.Backend, launch.Job, launch.Reason, launch.Permanent
		if launch.Err != nil {
			f.Reason = strings.TrimPrefix(f.Reason+": "+launch.Err.Error(), ": ")
		}
	}
	return f
}

func (f *jobFailure) err() error {
	var cause error
	switch {
	case f.Canceled:
		cause = context.Canceled
	case f.Deadline:
		cause = context.DeadlineExceeded
	}
	switch {
	case f.Launch && cause != nil:
		return &backend.LaunchError{Backend: f.Backend, Job: f.Job, Err: cause, Permanent: f.Permanent}
	case f.Launch:
		return &backend.LaunchError{Backend: f.Backend, Job: f.Job, Reason: f.Reason, Permanent: f.Permanent}
	case cause != nil:
		return cause
	}
	return errors.New(f.Reason)
}

func (r jobRequest) frames() [][]byte { return mustMarshal(r) }

func mustMarshal(v any) [][]byte {
	frames, err := codec.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and bytes
	}
	return frames
}

// launchedJob is the id of the job that an answer says was launched, "" when
// it says something else.
func launchedJob(value [][]byte) string {
	var a jobAnswer
	if len(value) == 0 || codec.Unmarshal(value, &a) != nil {
		return ""
	}
	return a.Launched
}

// failed says whether an answer is a failure.
func failed(value [][]byte) bool {
	var a jobAnswer
	return codec.Unmarshal(value, &a) != nil || a.Failure != nil
}

// jobs are those that the root runs for the processes below its children.
type jobs struct {
	mu      sync.Mutex
	byID    map[string]*lower
	readers map[uint64]*lowerLogs
	last    uint64
}

// lower is a job of a process below.
type lower struct {
	backend.Job
	owner string // the place of the process that asked for it
	tail  tail
}

// lowerLogs is the output of a lower job that is being read.
type lowerLogs struct {
	job   string
	owner string // of the job
	io.ReadCloser
}

// logsChunk is how much of a job's output goes into one answer.
const logsChunk = 32 << 10

// answerJob serves the request of a process below, here or further up, and
// notes what has to be removed when that process ends.
func (c *Child) answerJob(ask wire.Ask, value [][]byte) ([][]byte, error) {
	var r jobRequest
	if err := codec.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("%w: a job request: %w", wire.ErrMalformed, err)
	}
	if r.Do == jobLaunch && !c.holds(r.Spec.Devices) {
		return nil, fmt.Errorf("fiber: the GPUs %v are not lent to %s", r.Spec.Devices, c.spec.Name)
	}
	var back [][]byte
	if n := c.node; n.Parent != nil {
		a, err := n.Parent.request(c.asks, wire.Ask{What: askJob, From: ask.From, Name: ask.Name}, value)
		if err != nil {
			return nil, err
		}
		back = a.value
	} else {
		answer, err := n.serveJob(c.asks, ask, r)
		if err != nil {
			answer = jobAnswer{Failure: failureOf(err)}
		}
		back = mustMarshal(answer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Do {
	case jobLaunch:
		if id := launchedJob(back); id != "" {
			if c.below == nil {
				c.below = map[string]struct{}{}
			}
			c.below[id] = struct{}{}
		}
	case jobRemove:
		if !failed(back) {
			delete(c.below, r.Job)
		}
	}
	return back, nil
}

// holds says whether GPUs are on loan to the processes below a child, each once.
func (c *Child) holds(devices []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	lent := slices.Clone(c.devices)
	for _, d := range devices {
		i := slices.Index(lent, d)
		if i < 0 {
			return false
		}
		lent = slices.Delete(lent, i, i+1)
	}
	return true
}

// removeJobs removes the jobs of a process that has ended.
func (n *Node) removeJobs(ids map[string]struct{}) {
	var all sync.WaitGroup
	for id := range ids {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), engineGrace)
			defer cancel()
			r := jobRequest{Do: jobRemove, Job: id}
			if n.Parent != nil {
				n.Parent.request(ctx, wire.Ask{What: askJob}, r.frames())
			} else if _, err := n.serveJob(ctx, wire.Ask{}, r); err != nil {
				n.Log.Warn("fiber: a job was not removed", "id", id, "error", err)
			}
		})
	}
	all.Wait()
}

// serveJob does, in the root, what the process that asks wants of a job.
func (n *Node) serveJob(ctx context.Context, ask wire.Ask, r jobRequest) (jobAnswer, error) {
	switch r.Do {
	case jobLaunch:
		return n.launchLower(ctx, ask, r)
	case jobRead:
		// Who asks may have gone while there is nothing to read.
		defer context.AfterFunc(ctx, func() { n.jobs.closeReader(ask.From, r.Reader) })()
		return n.jobs.read(ask.From, r)
	case jobClose:
		n.jobs.closeReader(ask.From, r.Reader)
		return jobAnswer{}, nil
	}
	n.jobs.mu.Lock()
	j := n.jobs.byID[r.Job]
	n.jobs.mu.Unlock()
	if j == nil || !within(j.owner, ask.From) {
		if r.Do == jobRemove {
			return jobAnswer{}, nil
		}
		return jobAnswer{}, fmt.Errorf("fiber: there is no job %s any more", r.Job)
	}
	switch r.Do {
	case jobWait:
		status, err := j.Wait(ctx)
		return jobAnswer{Status: status, Tail: j.tail.bytes()}, err
	case jobEvent:
		select {
		case e := <-j.Events():
			return jobAnswer{Event: e, Host: j.Host()}, nil // none: there will be no more
		case <-ctx.Done():
			return jobAnswer{}, ctx.Err()
		}
	case jobSignal:
		return jobAnswer{}, j.Signal(ctx, r.Signal)
	case jobRemove:
		err := j.Remove(ctx)
		if err == nil {
			n.jobs.forget(r.Job)
		}
		return jobAnswer{}, err
	case jobLogs:
		logs, err := j.Logs(context.Background(), backend.LogOptions{Follow: r.Follow})
		if err != nil {
			return jobAnswer{}, err
		}
		n.jobs.mu.Lock()
		defer n.jobs.mu.Unlock()
		if n.jobs.readers == nil {
			n.jobs.readers = map[uint64]*lowerLogs{}
		}
		n.jobs.last++
		n.jobs.readers[n.jobs.last] = &lowerLogs{r.Job, j.owner, logs}
		return jobAnswer{Reader: n.jobs.last}, nil
	}
	return jobAnswer{}, fmt.Errorf("%w: %q is not done with jobs", wire.ErrMalformed, r.Do)
}

// launchLower starts a job for the process that asks.
func (n *Node) launchLower(ctx context.Context, ask wire.Ask, r jobRequest) (jobAnswer, error) {
	if r.Within > 0 {
		within, cancel := context.WithTimeout(ctx, r.Within)
		defer cancel()
		ctx = within
	}
	s := r.Spec
	if err := n.allows(s); err != nil {
		return jobAnswer{}, err
	}
	j := &lower{owner: ask.From}
	name := printable(s.Name)
	stdout, stderr := n.outputs(name, true, &j.tail)
	spec := backend.JobSpec{Name: name, Run: n.Run, Parent: printable(ask.Name), Executable: n.Config.Executable, Args: os.Args[1:],
		Env: s.Env, Public: []string{bootstrapKey + "=" + s.Bootstrap}, Resources: s.Resources, Devices: s.Devices,
		Avoid: slices.Compact(slices.Sorted(slices.Values(append(n.Avoided(), s.Avoid...)))), Stdout: stdout, Stderr: stderr}
	if s.NoDevices {
		spec.Devices = []string{}
	}
	job, err := n.Backend.Launch(ctx, spec)
	if err != nil {
		stdout.Close()
		stderr.Close()
		return jobAnswer{}, err
	}
	j.Job = job
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	if n.jobs.byID == nil {
		n.jobs.byID = map[string]*lower{}
	}
	n.jobs.byID[job.ID()] = j
	return jobAnswer{Launched: job.ID(), Host: job.Host()}, nil
}

// allows says what is wrong with a job that a process below wants.
func (n *Node) allows(s jobSpec) error {
	r := s.Resources
	if !(r.CPU >= 0) || math.IsInf(r.CPU, 1) || r.Memory < 0 || r.GPU < 0 {
		return fmt.Errorf("%w: a job that needs %v", wire.ErrMalformed, r)
	}
	if n.gpus != nil && len(n.gpus.all) > 0 && len(s.Devices) != r.GPU {
		return fmt.Errorf("%w: a job that needs %d GPUs, with %d that are lent to it", wire.ErrMalformed, r.GPU, len(s.Devices))
	}
	return nil
}

// within says whether a place is another one, or below it.
func within(place, other string) bool {
	return place == other || strings.HasPrefix(place, other+"/")
}

// reader is the output that a process reads; mu is held.
func (j *jobs) reader(from string, id uint64) *lowerLogs {
	if logs := j.readers[id]; logs != nil && within(logs.owner, from) {
		return logs
	}
	return nil
}

func (j *jobs) read(from string, r jobRequest) (jobAnswer, error) {
	j.mu.Lock()
	logs := j.reader(from, r.Reader)
	j.mu.Unlock()
	if logs == nil {
		return jobAnswer{}, nil // its end
	}
	buf := make([]byte, logsChunk)
	n, err := logs.Read(buf)
	if n > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return jobAnswer{Data: buf[:n]}, err
}

func (j *jobs) closeReader(from string, id uint64) {
	j.mu.Lock()
	logs := j.reader(from, id)
	if logs != nil {
		delete(j.readers, id)
	}
	j.mu.Unlock()
	if logs != nil {
		logs.Close()
	}
}

// forget forgets a job that has been removed.
func (j *jobs) forget(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.byID, id)
	for reader, logs := range j.readers {
		if logs.job == id {
			delete(j.readers, reader)
			logs.Close()
		}
	}
}
