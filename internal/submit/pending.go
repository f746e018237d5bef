package submit

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// state is how far a pod has come.
type state struct {
	started  bool
	ended    *corev1.ContainerStateTerminated
	waits    string // for what, in the cluster's words; "" where there is nothing to say yet
	unplaced bool   // no node has been found
	failed   string // why nothing can become of it
	pulling  bool   // the image could not be pulled, which may heal
}

// judge reads a pod's status.
func judge(pod *corev1.Pod) state {
	var s state
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			s.waits, s.unplaced = unplaced(c.Message), true
			if m := missingClaim.FindStringSubmatch(c.Message); m != nil {
				s.failed = "the namespace has no claim " + m[1]
			}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != Container && len(pod.Status.ContainerStatuses) > 1 {
			continue
		}
		switch {
		case c.State.Terminated != nil:
			s.started, s.ended = true, c.State.Terminated
		case c.State.Running != nil:
			s.started = true
		case c.State.Waiting != nil:
			s.wait(c.State.Waiting)
		}
	}
	if s.ended == nil && pod.Status.Phase == corev1.PodFailed {
		s.failed = join(pod.Status.Reason, pod.Status.Message)
	}
	if s.ended != nil && neverRan(s.ended) {
		s.failed, s.started = s.ended.Message, false
	}
	return s
}

func (s *state) wait(w *corev1.ContainerStateWaiting) {
	switch w.Reason {
	case "ContainerCreating", "PodInitializing", "":
	case "ErrImagePull", "ImagePullBackOff":
		s.waits, s.pulling = "the image can't be pulled: "+pullWords(w.Message), true
		if hopeless(w.Message) {
			s.failed = s.waits
		}
	case "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError":
		s.failed = join(w.Reason, w.Message)
	case "CreateContainerError":
		s.waits = join(w.Reason, w.Message)
		if !strings.Contains(w.Message, "deadline exceeded") && !strings.Contains(w.Message, "is reserved for") {
			s.failed = s.waits
		}
	default:
		s.waits = join(w.Reason, w.Message)
	}
}

var (
	missingClaim = regexp.MustCompile(`persistentvolumeclaim "([^"]*)" not found`)
	pullPrefix   = regexp.MustCompile(`Back-off pulling image "[^"]*": ErrImagePull: |rpc error: code = \w+ desc = |failed to pull and unpack image "[^"]*": |failed to resolve reference "[^"]*": `)
)

// pullWords is what is at the bottom of a pull's error.
func pullWords(message string) string { return pullPrefix.ReplaceAllString(message, "") }

// unplaced is why the scheduler finds no node, without what it thinks of evicting others.
func unplaced(message string) string {
	for _, rest := range []string{" no new claims to deallocate", " preemption:"} {
		message, _, _ = strings.Cut(message, rest)
	}
	return message
}

// hopeless reports whether a pull will fail the next time, too.
func hopeless(message string) bool {
	for _, words := range []string{"not found", "does not exist", "unauthorized", "denied", "forbidden", "no basic auth",
		"authentication required", "HTTP response to HTTPS client", "certificate", "no match for platform", "manifest unknown"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// neverRan reports whether the program could not be started.
func neverRan(t *corev1.ContainerStateTerminated) bool {
	return t.Reason == "StartError" || t.Reason == "ContainerCannotRun"
}

func join(reason, message string) string {
	switch {
	case message == "":
		return reason
	case reason == "":
		return message
	}
	return reason + ": " + message
}

// exit is the exit code of a program that has ended, and what there is to say about it.
func exit(pod *corev1.Pod, t *corev1.ContainerStateTerminated) (code int, words string) {
	switch {
	case t.Reason == "OOMKilled":
		words = "it has used more memory than it may (OOMKilled)"
		if limit, ok := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]; ok {
			words = fmt.Sprintf("it has used more than its %s of memory (OOMKilled)", Amount(limit.Value()))
		}
	case pod.Status.Reason != "":
		words = join(pod.Status.Reason, pod.Status.Message)
	}
	code = int(t.ExitCode)
	if t.Signal != 0 && code == 0 {
		code = 128 + int(t.Signal)
	}
	return code, words
}

// startCode is the exit code of a program that could not be started, as a shell has it.
func startCode(message string) int {
	if strings.Contains(message, "not found") || strings.Contains(message, "no such file") {
		return 127
	}
	return 126
}
