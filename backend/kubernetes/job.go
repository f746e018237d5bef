package kubernetes

import (
	"context"
	"fmt"
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
	"github.com/fiber-go/fiber/internal/container/logmux"
	"github.com/fiber-go/fiber/internal/kube"
)

const (
	// outputGrace bounds the wait for the output of a pod that has ended.
	outputGrace = 3 * time.Second
	// statusGrace bounds the wait for the cluster to report an end that the log
	// has already reported: nodes look every second.
	statusGrace = 5 * time.Second
	// killGrace is, in seconds, the shortest grace after which the node itself
	// reports that the process has ended; the node makes it two seconds.
	killGrace = 1
	// forceAfter is when a node that has not reported the end is taken for dead.
	forceAfter = 10 * time.Second
	// maxPulls is how often the pull of an image may fail. The node tries again
	// ten seconds later.
	maxPulls = 1
)

// job is a pod.
type job struct {
	*lives.Life
	backend        *Backend
	cluster        *cluster
	name           string
	id             string                     // the pod's name
	pod            *corev1.Pod                // as requested; never written to
	made           atomic.Pointer[corev1.Pod] // as the cluster made it, nil before
	memory         int                        // MiB, 0 for no limit
	stdout, stderr io.Writer

	started chan struct{} // closed when its process has been started
	stopped chan struct{} // closed when the cluster reports that it has ended or will never start

	mu      sync.Mutex
	host    string
	pulls   int    // that failed
	pulling bool   // the last state was a failed pull
	said    string // the last reason to wait
	ran     bool
	ended   backend.ExitStatus // set before stopped is closed
	fatal   string             // why it will never start
	killed  bool               // by Signal
	until   time.Time          // when its node kills it, after a Terminate
	force   *time.Timer
	gone    bool // the pod does not exist any more
}

func (j *job) ID() string { return j.id }

func (j *job) Host() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.host
}

// update handles a new state of the pod from the watch.
func (j *job) update(pod *corev1.Pod) {
	st := kube.Judge(pod)
	j.mu.Lock()
	if node := pod.Spec.NodeName; node != "" && node != j.host {
		j.host = node
		j.Tell(backend.Event{Kind: backend.Placed})
	}
	if st.Started {
		j.runs()
	}
	pulling := st.Reason == kube.PullFailed
	if pulling && !j.pulling {
		if j.pulls++; j.pulls > maxPulls {
			st.Failed = st.Waits
		}
	}
	j.pulling = pulling
	ask := st.Failed == "" && st.Unplaced() && st.Waits != j.said
	if st.Failed == "" && st.Waits != "" && st.Waits != j.said && !ask {
		j.Tell(backend.Event{Kind: backend.Pending, Reason: st.Waits})
	}
	j.said = st.Waits
	if j.ran {
		st.Failed = ""
	}
	if st.Over || st.Failed != "" {
		j.stops(statusOf(st), st.Failed)
	}
	j.mu.Unlock()
	if ask {
		go j.noRoom(st.Waits)
	}
}

// noRoom reports that no node has room, and whether no node is large enough at all.
func (j *job) noRoom(reason string) {
	if largest := j.cluster.tooLarge(kube.Main(j.pod).Resources.Requests); largest != "" {
		reason += " No node can hold it: " + largest + "."
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.said != "" {
		j.Tell(backend.Event{Kind: backend.Pending, Reason: reason})
	}
}

// deleted handles the deletion of the pod.
func (j *job) deleted() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone = true
	fatal := ""
	if !j.ran && !j.killed {
		fatal = "its pod was deleted before it had started"
	}
	j.stops(backend.ExitStatus{Code: -1, Reason: "its pod was deleted"}, fatal)
}

// runs notes that the process was started; mu is held.
func (j *job) runs() {
	if !j.ran {
		j.ran = true
		j.Tell(backend.Event{Kind: backend.Started})
		close(j.started)
	}
}

// stops notes that the pod has ended, or never will start; mu is held.
func (j *job) stops(status backend.ExitStatus, fatal string) {
	select {
	case <-j.stopped:
	default:
		j.ended, j.fatal = status, fatal
		close(j.stopped)
	}
}

// run passes on the job's output and reports its end.
func (j *job) run() {
	ctx, cancel := context.WithCancel(context.Background())
	out := j.Pass(j.stdout, j.stderr, func(apart *logmux.Reader, _ io.Writer) {
		defer cancel()
		j.read(ctx, apart)
	})
	select {
	case <-out.Done():
	case <-j.stopped:
	}
	end, said := out.End(outputGrace, cancel)
	if said {
		select { // the log is ahead of the cluster, whose report counts
		case <-j.stopped:
		case <-time.After(statusGrace):
		}
	} else {
		<-j.stopped // whatever became of the log
	}
	j.mu.Lock()
	status, err := j.conclude(end, said)
	if j.force != nil {
		j.force.Stop()
	}
	j.mu.Unlock()
	j.End(status, err)
}

// conclude returns how the job has ended; mu is held.
func (j *job) conclude(end logmux.End, said bool) (status backend.ExitStatus, err error) {
	status.Code = -1
	select {
	case <-j.stopped:
		status = j.ended
	default:
	}
	oom := status.OOMKilled
	if said && status.Code == -1 { // the cluster does not know, or not yet
		status = lives.Exited(end.Code)
		oom = end.OutOfMemory
	}
	switch {
	case j.killed:
		status = lives.Exited(128 + int(syscall.SIGKILL))
	case oom:
		status = lives.OutOfMemory(j.memory)
	case j.fatal != "":
		err = &backend.LaunchError{Backend: j.backend.Name(), Job: j.name, Reason: j.fatal, Permanent: permanent(j.fatal)}
	}
	return status, err
}

// Signal deletes the pod, which is the only way to signal one: its node sends a
// SIGTERM and, after the grace, a SIGKILL. Many nodes do not shorten a grace once
// it runs, whatever the cluster says, not even for a forced deletion. So the
// grace of a Terminate is as short as it can be, and a Kill may have to wait for
// its end.
func (j *job) Signal(ctx context.Context, sig backend.Signal) error {
	select {
	case <-j.Done():
		return nil
	case <-j.stopped:
		return nil
	default:
	}
	grace := max(killGrace, int64((j.backend.cfg.ShutdownGrace+time.Second-1)/time.Second)+1)
	j.mu.Lock()
	if sig == backend.Kill {
		grace = killGrace
		j.killed = true
		if j.force == nil {
			j.force = time.AfterFunc(forceAfter+max(0, time.Until(j.until)), j.forceDelete)
		}
	} else if j.until.IsZero() {
		j.until = time.Now().Add(time.Duration(grace) * time.Second)
	}
	j.mu.Unlock()
	if err := j.cluster.Delete(ctx, "pods", j.id, grace); err != nil {
		return fmt.Errorf("fiber: signalling %s (pod %s): %w", j.name, j.id, err)
	}
	return nil
}

// forceDelete makes the cluster forget a pod whose node does not answer.
func (j *job) forceDelete() {
	select {
	case <-j.stopped:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if j.cluster.Delete(ctx, "pods", j.id, 0) == nil {
		j.deleted()
	}
}

// Remove kills the job if it runs, and deletes the pod.
func (j *job) Remove(ctx context.Context) error {
	if err := j.Finish(ctx, func() error { return j.Signal(ctx, backend.Kill) }); err != nil {
		return err
	}
	j.mu.Lock()
	gone := j.gone
	j.mu.Unlock()
	if !gone {
		if err := j.backend.removals.remove(ctx, j.cluster, j.id); err != nil {
			return fmt.Errorf("fiber: removing %s (pod %s): %w", j.name, j.id, err)
		}
		j.mu.Lock()
		j.gone = true
		j.mu.Unlock()
	}
	j.backend.watch.drop(j)
	return nil
}

// passing are prefixes of the reasons for which a pod did not start but may start
// on the next try. Most of them come from its node.
var passing = []string{"OutOf", "Node", "Evicted", "UnexpectedAdmissionError", "Preempt", "Shutdown", "Terminated", "its pod was deleted"}

// permanent reports whether a job that could not start would fail again.
func permanent(reason string) bool {
	return !slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(reason, p) })
}

// statusOf returns the status of a job that is over.
func statusOf(st kube.State) backend.ExitStatus {
	status := backend.ExitStatus{Code: -1}
	if st.Ended != nil {
		status = lives.Exited(int(st.Ended.ExitCode))
		status.OOMKilled = st.Ended.Reason == "OOMKilled"
	}
	status.Reason = st.Note
	return status
}
