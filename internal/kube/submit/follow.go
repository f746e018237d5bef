package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// harmless are warnings that do not explain why a pod waits. A lack of room is in the pod's status.
var harmless = []string{"FailedScheduling", "MissingClusterDNS", "DNSConfigForming"}

// Follow waits for the job's start and, without Detach, for its end, and returns its exit code. The first signal asks the
// job to end, a second one kills it.
func (r *Run) Follow(ctx context.Context, signals <-chan os.Signal) (code int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.Report.Clear()
	f := follower{Run: r, seen: observe(ctx, r.Client, r.pod), written: make(chan error, 1), since: time.Now()}
	late := time.NewTimer(r.StartTimeout)
	defer late.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	var silent <-chan time.Time
	for {
		select {
		case <-f.seen.changed:
			if done, code, err := f.look(ctx); done {
				return code, err
			}
			if f.now.Ended != nil && silent == nil {
				silent = time.After(lastOutput)
			}
		case <-look.C:
			if !f.now.Started && !f.stopped {
				if err := f.wait(ctx); err != nil {
					return 1, err
				}
			}
		case err := <-f.written:
			return f.conclude(err)
		case <-silent:
			r.Report.Say("the last of the pod's output could not be read")
			return f.conclude(nil)
		case <-late.C:
			if !f.now.Started && !f.stopped {
				return 1, f.fail("it did not start within %v (FIBER_START_TIMEOUT): %s", r.StartTimeout, f.now.Waits)
			}
		case s := <-signals:
			if code, gone := f.signal(s); gone {
				return code, nil
			}
		case <-ctx.Done():
			return 1, ctx.Err()
		}
	}
}

// follower is a call of Follow.
type follower struct {
	*Run
	seen    *observer
	now     kube.State
	since   time.Time // since when the pod waits, or pulls of its image fail
	pulling bool
	told    bool

	streaming bool
	written   chan error // the end of the output

	stopped bool           // by a signal
	by      syscall.Signal // that the user sent
}

// look handles a new state of the pod.
func (f *follower) look(ctx context.Context) (done bool, code int, err error) {
	pod, gone, err := f.seen.see()
	f.pod = pod
	if err != nil {
		return true, 1, fmt.Errorf("the pod %s keeps running, but can't be watched: %w", pod.Name, err)
	}
	f.now = kube.Judge(pod)
	if missing(f.secret, f.now.Failed) {
		f.now.Failed = ""
	}
	switch {
	case f.now.Started && f.Detach:
		return true, 0, nil
	case f.now.Started && f.now.Ended != nil:
		f.stream(ctx)
	case gone && f.stopped:
		return true, 128 + int(f.by), nil
	case gone:
		return true, 1, fmt.Errorf("the pod %s was deleted", pod.Name)
	case f.stopped:
	case f.now.Failed != "":
		err := f.fail("%s", f.now.Failed)
		if f.now.Ended != nil {
			err.Code = startCode(f.now.Failed)
		}
		return true, err.Code, err
	case f.now.Started:
		f.stream(ctx)
	case f.now.Unplaced() && !f.told:
		if err := f.wait(ctx); err != nil {
			return true, 1, err
		}
	default:
		f.tell(f.now.Waits)
	}
	if f.now.Pulling() != f.pulling {
		f.pulling, f.since = f.now.Pulling(), time.Now()
	}
	return false, 0, nil
}

func (f *follower) tell(words string) {
	if words == "" {
		f.Report.Passing("%s is pending", f.pod.Name)
		return
	}
	f.told = true
	f.Report.Status("%s is pending: %s", f.pod.Name, words)
}

// wait finds out why a pod waits, and gives the pod up if it cannot start.
func (f *follower) wait(ctx context.Context) *Failure {
	switch {
	case f.now.Pulling():
		if time.Since(f.since) > pullTries {
			return f.fail("%s", f.now.Waits)
		}
		return nil
	case f.now.Unplaced():
		nodes, err := f.Client.Nodes(ctx)
		words, enough := kube.Largest(nodes, kube.Main(f.pod).Resources.Requests)
		if err != nil || enough || len(nodes) == 0 {
			f.tell(f.now.Waits)
			return nil
		}
		f.tell(f.now.Waits + " " + words)
		if time.Since(f.since) > noHope && !f.announced(ctx) {
			return f.fail("%s %s", f.now.Waits, words)
		}
		return nil
	}
	events, err := f.Client.PodEvents(ctx, f.pod.Name)
	if err != nil {
		return nil // the events only add details
	}
	for _, e := range events {
		if e.Type == corev1.EventTypeWarning && !slices.Contains(harmless, e.Reason) {
			f.now.Waits = e.Reason + ": " + e.Message
		}
	}
	f.tell(f.now.Waits)
	return nil
}

// announced reports whether an autoscaler may add a node for the pod.
func (f *follower) announced(ctx context.Context) bool {
	events, err := f.Client.PodEvents(ctx, f.pod.Name)
	if err != nil {
		return true // unknown
	}
	for _, e := range events {
		if e.Reason == "TriggeredScaleUp" || e.Reason == "Nominated" {
			return true
		}
	}
	return false
}

// stream begins to write the output.
func (f *follower) stream(ctx context.Context) {
	if f.streaming {
		return
	}
	f.streaming = true
	f.Report.Clear()
	to := apart(f.pod, f.Report.above(f.Stdout), f.Report.above(f.Stderr))
	out := &kube.Output{Client: f.Client, Pod: f.pod, To: to, Lost: f.Report.lost}
	go func() {
		err := out.Follow(ctx, f.seen.over)
		_ = to.Close() // what is left is an unfinished line
		f.written <- err
	}()
}

// fail removes the pod and returns the failure.
func (f *follower) fail(format string, args ...any) *Failure {
	failure := &Failure{Pod: f.pod.Name, Reason: strings.TrimSuffix(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "), ": "), Code: 1}
	if err := f.remove(0); err != nil {
		failure.Reason += "; its pod could not be removed: " + err.Error()
	}
	return failure
}

// signal passes a signal of the user on to the pod.
func (f *follower) signal(s os.Signal) (code int, gone bool) {
	n, ok := s.(syscall.Signal)
	if !ok {
		n = syscall.SIGTERM
	}
	grace := int64(-1) // the pod's own
	if f.stopped || !f.now.Started {
		grace = 0
	}
	again := f.stopped
	f.stopped, f.by = true, n
	if !again {
		f.Report.Passing("%s is told to end", f.pod.Name)
	}
	if err := f.remove(grace); err != nil {
		f.Report.Say("%s could not be told to end: %v", f.pod.Name, err)
	}
	return 128 + int(n), again || grace == 0
}

// conclude is called when the output has been written.
func (f *follower) conclude(err error) (int, error) {
	if kube.Unread(err) { // the program ends, as one on this machine would by SIGPIPE
		_ = f.remove(-1) // an error could not be reported
		return 128 + int(syscall.SIGPIPE), nil
	}
	pod, gone, unseen := f.seen.see()
	s := kube.Judge(pod)
	if s.Ended == nil {
		if f.stopped {
			return 128 + int(f.by), nil
		}
		switch {
		case err != nil:
		case gone:
			err = errors.New("it was deleted")
		case unseen != nil:
			err = unseen
		default:
			err = errors.New("its output has ended, but how the program ended is not known")
		}
		return 1, fmt.Errorf("the pod %s: %w", pod.Name, err)
	}
	code, words := exit(pod, s)
	if words == "" && pod.DeletionTimestamp != nil && !f.stopped {
		words = "it was told to end, because its pod was deleted"
	}
	if words != "" {
		f.Report.Say("%s: %s", pod.Name, words)
	}
	if f.stopped && code == 128+int(syscall.SIGTERM) {
		code = 128 + int(f.by) // the pod got a SIGTERM, whatever the user sent
	}
	if !gone && !f.Keep {
		if failure := f.remove(0); failure != nil {
			f.Report.Say("the pod %s has ended, but could not be removed: %v", pod.Name, failure)
		}
	}
	return code, err
}
