package kube

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend"
	lives "github.com/fiber-go/fiber/backend/job"
	"github.com/fiber-go/fiber/internal/logmux"
)

// Name is the name of the backend whose jobs these are.
const Name = "kubernetes"

const (
	// statusGrace bounds the wait for the cluster to report an end that the log has already reported: nodes look every second.
	statusGrace = 5 * time.Second
	// forced is for how long the program of a pod that was removed by force may still write: its node has yet to hear of it.
	forced = 15 * time.Second
	// maxPulls is how often the pull of an image may fail. The node tries again ten seconds later.
	maxPulls = 1
)

// Job is the program of a pod, from the request for the pod to the program's end.
type Job struct {
	*lives.Life
	Options
	Started chan struct{} // closed when the program has been started
	Stopped chan struct{} // closed when the cluster reports that it has ended or will never start

	Killed   atomic.Bool // set by the one that kills it
	TooLarge atomic.Bool // the pod waits because no node is large enough
	Gone     atomic.Bool // the pod does not exist any more

	mu    sync.Mutex
	pod   *corev1.Pod // the latest state; before the pod is made, as requested
	pulls int         // that failed
	last  State       // as of pod
	waits string      // what it waits for, in words
	ended backend.ExitStatus
	fatal string // why it will never start
}

// Options are the options of a job.
type Options struct {
	Client         *Client
	Name           string // in errors
	Stdout, Stderr io.Writer
	OutputGrace    time.Duration // bounds the wait for the output of a pod that has ended
	Secret         string        // may be made after the pod, whose node looks for it again
	Lost           func(error)   // called when the output can't be read; may be nil
	Delivery       Reading       // nil if the output is in the pod's log alone
}

// Reading reads the output of a pod whose program has an init; see [backend.Delivery].
type Reading interface {
	Read(ctx context.Context, started, ended <-chan struct{}, to backend.Joined) (whole bool)
}

// NewJob returns the job of a pod that exists or is to be made. The caller has the pod watched and passes its states to Update.
func NewJob(pod *corev1.Pod, opts Options) *Job {
	if opts.Lost == nil {
		opts.Lost = func(error) {}
	}
	return &Job{Life: lives.New(), Options: opts, pod: pod, Started: make(chan struct{}), Stopped: make(chan struct{})}
}

// Pod returns the latest state of the pod. It has no UID before the pod is made. The caller must not change it.
func (j *Job) Pod() *corev1.Pod {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pod
}

// Made notes that the cluster has made the pod.
func (j *Job) Made(pod *corev1.Pod) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pod.UID == "" { // the watch has not reported it yet
		j.pod = pod
	}
}

// ID is the name of the pod.
func (j *Job) ID() string { return j.Pod().Name }

// Host is the pod's node.
func (j *Job) Host() string { return j.Pod().Spec.NodeName }

// HasStarted reports whether Started is closed.
func (j *Job) HasStarted() bool { return isClosed(j.Started) }

// Pending returns what the program waits for before it starts.
func (j *Job) Pending() (reason string, pending bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if isClosed(j.Started) || isClosed(j.Stopped) {
		return "", false
	}
	return j.waits, true
}

// Watch watches the pod of a job that no [PodWatch] of several pods covers; see [Client.WatchPods].
func (j *Job) Watch(ctx context.Context) error {
	return j.Client.WatchPods(ctx, PodWatch{Name: j.ID(), Tell: j.Update, Expected: func() []*corev1.Pod { return []*corev1.Pod{j.Pod()} }})
}

// Update handles a new state of the pod, or its last one if it is gone. It ignores another pod with its name.
func (j *Job) Update(pod *corev1.Pod, gone bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pod.UID != "" && j.pod.UID != pod.UID {
		return
	}
	j.pod = pod
	j.Gone.Store(gone)
	st, before := Judge(pod), j.last
	j.last = st
	if st.Started && !isClosed(j.Started) {
		close(j.Started)
	}
	if st.Reason == pullFailed && before.Reason != pullFailed {
		if j.pulls++; j.pulls > maxPulls {
			st.Failed = st.Waits
		}
	}
	if j.Secret != "" && strings.Contains(st.Failed, `secret "`+j.Secret+`" not found`) {
		st.Failed = ""
	}
	switch {
	case isClosed(j.Started):
		st.Failed = ""
	case gone && !st.Over && st.Failed == "" && !j.Killed.Load():
		st.Failed = "its pod was deleted before it had started"
	}
	switch {
	case st.Failed != "" || st.Waits == before.Waits:
	case st.Unplaced():
		go j.noRoom(st.Waits)
	default:
		j.waits = st.Waits
	}
	if isClosed(j.Stopped) || !st.Over && !gone && st.Failed == "" {
		return
	}
	j.ended, j.fatal = statusOf(st), st.Failed
	if gone && !st.Over {
		j.ended.Reason = "its pod was deleted"
	}
	close(j.Stopped)
}

// noRoom notes that no node has room, and whether no node is large enough at all.
func (j *Job) noRoom(reason string) {
	largest := j.Client.tooLarge(Main(j.Pod()).Resources.Requests)
	if j.TooLarge.Store(largest != ""); largest != "" {
		reason += " No node can hold it: " + largest + "."
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last.Unplaced() {
		j.waits = reason
	}
}

// Run passes on the job's output and reports its end. It returns early when ctx ends.
func (j *Job) Run(ctx context.Context) {
	reading, cancel := context.WithCancel(ctx)
	out := j.Pass(j.Stdout, j.Stderr, func(apart *lives.Apart, _ io.Writer) {
		defer cancel()
		if j.Delivery != nil && j.Delivery.Read(reading, j.Started, j.Stopped, apart) {
			return
		}
		select {
		case <-j.Started:
		case <-j.Stopped:
		case <-reading.Done():
		}
		if !isClosed(j.Started) { // a quick program's start and end may be reported together
			return
		}
		output := &Output{Client: j.Client, Pod: j.Pod(), To: apart.Stdout, Lost: j.Lost}
		if Joined(output.Pod) { // what was delivered is the beginning of the log
			again := apart.Again()
			defer func() { again.Close(lastWords(j.Pod())) }()
			output.To = untilEnd{again, apart, cancel}
		}
		if err := output.Follow(reading, j.Silent(reading)); err != nil && reading.Err() == nil {
			j.Lost(err)
		}
	})
	select {
	case <-out.Done():
	case <-j.Stopped:
	}
	cut := false
	end, said := out.End(j.OutputGrace, func() {
		cut = true
		cancel()
	})
	if cut || !isClosed(out.Done()) {
		j.Lost(errors.New("the last of it could not be read"))
	}
	late := context.Background()
	if said { // the log is ahead of the cluster, whose report counts
		late, cancel = context.WithTimeout(late, statusGrace)
		defer cancel()
	}
	select {
	case <-j.Stopped:
	case <-late.Done():
	case <-ctx.Done():
		return
	}
	j.mu.Lock()
	status, err := j.conclude(end, said)
	j.mu.Unlock()
	j.End(status, err)
}

// Silent returns a channel that is closed when the log is complete, or ctx ends. A pod that was removed by force has no log that
// could be opened again, and its program ends a moment later: what is open is read to its end, unless the node is dead.
func (j *Job) Silent(ctx context.Context) <-chan struct{} {
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		select {
		case <-j.Stopped:
		case <-ctx.Done():
		}
		if !j.Gone.Load() || Judge(j.Pod()).Over {
			return
		}
		select {
		case <-time.After(forced):
		case <-ctx.Done():
		}
	}()
	return silent
}

// lastWords returns what the init of a pod whose program has ended has left with the end.
func lastWords(pod *corev1.Pod) string {
	if t := Judge(pod).Ended; t != nil {
		return t.Message
	}
	return ""
}

// untilEnd calls stop once the init has reported how its program ended.
type untilEnd struct {
	io.Writer
	apart *lives.Apart
	stop  func()
}

func (u untilEnd) Write(p []byte) (int, error) {
	u.Writer.Write(p)
	if _, ended := u.apart.Ended(); ended {
		u.stop()
	}
	return len(p), nil
}

// conclude returns how the job has ended; mu is held.
func (j *Job) conclude(end logmux.End, said bool) (status backend.ExitStatus, err error) {
	status.Code = -1
	if isClosed(j.Stopped) {
		status = j.ended
	}
	oom := status.OOMKilled
	if said && status.Code == -1 { // the cluster does not know, or not yet
		status = lives.Exited(end.Code)
		oom = end.OutOfMemory
	}
	switch {
	case j.Killed.Load():
		status = lives.Exited(128 + int(syscall.SIGKILL))
	case oom:
		status = lives.OutOfMemory(int(Main(j.pod).Resources.Limits.Memory().Value() >> 20))
	case j.fatal != "":
		err = &backend.LaunchError{Backend: Name, Job: j.Name, Reason: j.fatal, Permanent: permanent(j.fatal)}
	}
	return status, err
}

// passing are prefixes of the reasons for which a pod did not start but may start on the next try. Most of them come from its
// node.
var passing = []string{"OutOf", "Node", "Evicted", "UnexpectedAdmissionError", "Preempt", "Shutdown", "Terminated", "its pod was deleted", "its pod has failed"}

// permanent reports whether a job that could not start would fail again.
func permanent(reason string) bool {
	return !slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(reason, p) })
}

// statusOf returns the status of a job that is over.
func statusOf(st State) backend.ExitStatus {
	status := backend.ExitStatus{Code: -1}
	if t := st.Ended; t != nil {
		code := int(t.ExitCode)
		if t.Signal != 0 && code == 0 {
			code = 128 + int(t.Signal)
		}
		status = lives.Exited(code)
		status.OOMKilled = t.Reason == OutOfMemory
	}
	status.Reason = st.Note
	return status
}
