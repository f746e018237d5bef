package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/stdio"
)

// harmless are warnings that do not explain why a pod waits. A lack of room is in the pod's status.
var harmless = []string{"FailedScheduling", "MissingClusterDNS", "DNSConfigForming"}

// errUnread means that the reader of the output is gone.
var errUnread = errors.New("nobody reads the output")

// Follow waits for the job's start and, without Detach, for its end, and returns its exit code. The first signal asks the
// job to end, a second one kills it and does not wait. If the job cannot start, nothing is left of it. If another pod takes the
// place of one that has died, Follow goes on with that.
func (r *Run) Follow(ctx context.Context, signals <-chan os.Signal) (code int, err error) {
	for again := false; ; again = true {
		next, code, err := r.follow(ctx, signals, again)
		if next == nil {
			return code, err
		}
		r.pod = next
	}
}

// follow follows one pod, and returns the one that has taken its place, or else how it has ended.
func (r *Run) follow(ctx context.Context, signals <-chan os.Signal, again bool) (next *corev1.Pod, code int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.Report.Clear()
	defer stdio.Leave()
	defer r.Report.taken()
	opts := kube.Options{Client: r.Client, Name: r.pod.Name, OutputGrace: lastOutput, Secret: r.secret}
	if d := r.delivery; d != nil {
		opts.Delivery = &delivered{r, r.pod, d.port, d.credentials}
	}
	if !r.Detach {
		unread := func() { cancel(errUnread) }
		opts.Lost, opts.Stdout, opts.Stderr = r.Report.lost, r.Report.above(r.Stdout, unread), r.Report.stderr(r.Stderr)
	}
	job := kube.NewJob(r.pod, opts)
	f := follower{Run: r, job: job, begun: time.Now(), again: again}
	go job.Run(ctx)
	go func() {
		cancel(fmt.Errorf("the pod %s keeps running, but can't be watched: %w", r.pod.Name, job.Watch(ctx)))
	}()
	late := time.NewTimer(r.StartTimeout)
	defer late.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	f.tell("")
	var slow <-chan time.Time      // of the end that a signal asks for
	removed := make(chan error, 1) // receives that of such a pod, and why it failed
	var succeeded <-chan succession
	if r.batch != nil {
		succeeded = succeed(ctx, job)
	}
	for started, done := job.Started, job.Done(); ; {
		select {
		case <-started:
			if started, f.started = nil, true; r.Detach {
				return nil, 0, nil
			}
			r.Report.Clear()
		case <-done:
			if done = nil; succeeded == nil || f.by != 0 || !job.HasStarted() && !died(job) {
				return f.finish(next)
			}
		case s := <-succeeded:
			if succeeded, next = nil, s.pod; s.err != nil {
				return nil, 1, s.err
			}
			if f.by != 0 {
				next = nil // it is being removed as well
			}
			if done == nil || next != nil && !over(job) {
				return f.finish(next)
			}
		case <-look.C:
			if !f.started && f.by == 0 && f.hopeless(ctx) {
				return nil, 1, f.fail(f.why)
			}
		case <-late.C:
			if !f.started && f.by == 0 && !again {
				f.look()
				return nil, 1, f.fail(fmt.Sprintf("it did not start within %v (FIBER_START_TIMEOUT): %s", r.StartTimeout, f.why))
			}
		case s := <-signals:
			if f.by != 0 { // a second one
				f.by = s.(syscall.Signal)
				f.asked(r.remove(atOnce, 0))
				return nil, 128 + int(f.by), nil
			}
			f.by, slow = s.(syscall.Signal), time.After(slowEnd)
			r.Report.Passing("%s is told to end", r.pod.Name)
			grace := int64(-1) // the pod's own
			if !f.started {
				grace = 0
			}
			go func() { removed <- r.Remove(grace) }()
		case <-slow:
			r.Report.Status("%s is told to end; a second Ctrl-C kills it", r.pod.Name)
		case err := <-removed:
			if f.asked(err); !f.started || done == nil {
				return nil, 128 + int(f.by), nil
			}
		case <-ctx.Done():
			if context.Cause(ctx) != errUnread {
				return nil, 1, context.Cause(ctx)
			}
			_ = r.Remove(-1)                            // an error could not be reported
			return nil, 128 + int(syscall.SIGPIPE), nil // the program ends, as one on this machine would
		}
	}
}

// follower is a call of Follow.
type follower struct {
	*Run
	job     *kube.Job
	begun   time.Time
	again   bool // the pod has taken another's place: the cluster goes on trying to start it
	started bool
	why     string         // the job waits
	by      syscall.Signal // that the user sent
}

// look tells what the job waits for, if that is known.
func (f *follower) look() {
	if why, _ := f.job.Pending(); why != "" {
		f.tell(why)
	}
}

func (f *follower) tell(why string) {
	if f.why = why; why == "" {
		f.Report.Passing("%s is pending", f.pod.Name)
		return
	}
	f.Report.Status("%s is pending: %s", f.pod.Name, why)
}

// hopeless tells why a pod waits. It reports whether no node can hold the pod, and no autoscaler has announced a node that
// can. If the pod's status does not say why it waits, the cluster's events may.
func (f *follower) hopeless(ctx context.Context) bool {
	f.look()
	events, err := f.Client.PodEvents(ctx, f.pod.Name)
	if err != nil {
		return false // the events only add details
	}
	announced, state := false, kube.Judge(f.job.Pod())
	for _, e := range events {
		switch {
		case e.Reason == "TriggeredScaleUp" || e.Reason == "Nominated":
			announced = true
		case e.Type == corev1.EventTypeWarning && state.Waits == "" && !slices.Contains(harmless, e.Reason):
			f.tell(e.Reason + ": " + e.Message)
		}
	}
	return !f.again && state.Unplaced() && f.job.TooLarge.Load() && time.Since(f.begun) > noHope && !announced
}

// fail removes the pod and returns the error of a job that was not started.
func (f *follower) fail(reason string) error {
	reason = strings.TrimSuffix(strings.Join(strings.Fields(reason), " "), ":")
	if err := f.Remove(0); err != nil {
		reason += "; its pod could not be removed: " + err.Error()
	}
	return fmt.Errorf("%s was not started: %s", f.pod.Name, reason)
}

// asked says that a signal did not reach the pod.
func (f *follower) asked(err error) {
	if err != nil {
		f.Report.Say("%s could not be told to end: %v", f.pod.Name, err)
	}
}

// conclude returns the exit code of a job that has ended, and removes its pod.
func (f *follower) conclude() (int, error) {
	status, err := f.job.Wait(context.Background())
	var never *backend.LaunchError
	switch {
	case f.Detach && f.job.HasStarted():
		return 0, nil
	case f.by != 0 && (err != nil || status.Code == -1 || status.Signal == syscall.SIGTERM):
		return 128 + int(f.by), nil // the pod got a SIGTERM, whatever the user sent
	case errors.As(err, &never):
		return startCode(f.job.Pod(), never.Reason), f.fail(never.Reason)
	case err != nil:
		return 1, err
	case status.Code == -1:
		return 1, fmt.Errorf("the pod %s: %s", f.pod.Name, status.Reason)
	}
	words := status.Reason
	switch {
	case status.OOMKilled:
		words += " (OOMKilled)"
	case words == "" && f.job.Pod().DeletionTimestamp != nil && f.by == 0:
		words = "it was told to end, because its pod was deleted"
	}
	if words != "" {
		f.Report.Say("%s: %s", f.pod.Name, words)
	}
	if !f.Keep {
		if err := f.Remove(0); err != nil {
			f.Report.Say("the pod %s has ended, but could not be removed: %v", f.pod.Name, err)
		}
	}
	return status.Code, nil
}

// finish returns the pod that has taken the place of the job's, or else how the job has ended.
func (f *follower) finish(next *corev1.Pod) (*corev1.Pod, int, error) {
	if next == nil {
		code, err := f.conclude()
		return nil, code, err
	}
	how := "whose node does not answer"
	if over(f.job) {
		status, _ := f.job.Wait(context.Background())
		how = "which has ended: " + cmp.Or(status.Reason, fmt.Sprintf("exit code %d", status.Code))
	}
	f.Report.Say("%s takes the place of %s, %s", next.Name, f.pod.Name, how)
	return next, 0, nil
}

// startCode returns the exit code of a program that could not be started, as in a shell.
func startCode(pod *corev1.Pod, reason string) int {
	switch {
	case kube.Judge(pod).Ended == nil: // its node did not try
		return 1
	case strings.Contains(reason, "not found") || strings.Contains(reason, "no such file"):
		return 127
	}
	return 126
}
