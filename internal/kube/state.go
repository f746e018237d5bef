package kube

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// State is how far the program of a pod has come, collected from the many places of the pod's status.
type State struct {
	Reason  string // why it waits, in one word, usually the cluster's
	Waits   string // the same in a few more words; "" if there is nothing worth telling
	Failed  string // why it will never start
	Started bool
	Ended   *corev1.ContainerStateTerminated // how it ended
	Over    bool                             // it has ended, or its node rejected or abandoned it
	Note    string                           // the cluster's words about that: Evicted, OutOfcpu …
}

// Unplaced reports whether no node has room for the pod.
func (s *State) Unplaced() bool { return s.Reason == corev1.PodReasonUnschedulable }

// OutOfMemory is the reason of a container that has used more memory than it may.
const OutOfMemory = "OOMKilled"

// The reasons of a pod whose image could not be pulled, just now or a while ago. The node tries again.
const (
	pullFailed = "ErrImagePull"
	pullWaits  = "ImagePullBackOff"
)

// Judge reads a pod's status.
func Judge(pod *corev1.Pod) State {
	status := MainStatus(pod)
	switch {
	case status != nil && status.State.Terminated != nil:
		return terminated(pod, status.State.Terminated)
	case status != nil && status.State.Running != nil:
		return State{Started: true}
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		note := cmp.Or(words(pod.Status.Reason, pod.Status.Message), initFailure(pod), "its pod has failed before its program began")
		return State{Over: true, Note: note, Failed: note}
	case status != nil && status.State.Waiting != nil:
		if s := waiting(status.State.Waiting); s != (State{}) {
			return s
		}
	}
	if failure := initFailure(pod); failure != "" {
		return State{Failed: failure}
	}
	var s State
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			s = unplaced(c)
		}
	}
	for _, init := range pod.Status.InitContainerStatuses {
		if init.State.Waiting != nil {
			if of := waiting(init.State.Waiting); of.Failed != "" || of.Waits != "" {
				return of
			}
		}
	}
	return s
}

// initFailure says that an init container has failed, "" if none has.
func initFailure(pod *corev1.Pod) string {
	for _, init := range pod.Status.InitContainerStatuses {
		if t := init.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("its init container %s failed: exit code %d %s", init.Name, t.ExitCode, words(t.Reason, t.Message))
		}
	}
	return ""
}

func terminated(pod *corev1.Pod, t *corev1.ContainerStateTerminated) State {
	if t.Reason == "StartError" || t.Reason == "ContainerCannotRun" {
		return State{Over: true, Ended: t, Failed: words(t.Reason, t.Message)}
	}
	return State{Started: true, Over: true, Ended: t, Note: words(pod.Status.Reason, pod.Status.Message)}
}

var missingClaim = regexp.MustCompile(`persistentvolumeclaim "([^"]*)" not found`)

// unplaced returns the state of a pod without a node. It omits the scheduler's thoughts about evicting other pods.
func unplaced(c corev1.PodCondition) State {
	message := c.Message
	for _, rest := range []string{" no new claims to deallocate", " preemption:"} {
		message, _, _ = strings.Cut(message, rest)
	}
	s := State{Reason: c.Reason, Waits: words(c.Reason, message)}
	if m := missingClaim.FindStringSubmatch(message); m != nil {
		s.Failed = "the namespace has no claim " + m[1]
	}
	return s
}

// waiting returns the state of a waiting container, and decides whether the wait will pass by itself.
func waiting(w *corev1.ContainerStateWaiting) State {
	s := State{Reason: w.Reason, Waits: words(w.Reason, w.Message)}
	final := false
	switch w.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return State{}
	case "InvalidImageName", "ErrImageNameInvalid", "ErrImageNeverPull":
		final = true
	case pullFailed, pullWaits:
		s.Waits = words(w.Reason, pullPrefix.ReplaceAllString(w.Message, ""))
		final = has(w.Message, hopelessPulls...)
		if has(w.Message, "qps exceeded") { // the node pulls images of other pods first
			s.Reason = "PullLimited"
		}
	case "CreateContainerConfigError":
		if has(w.Message, "timed out", "failed to sync") { // the node has not received everything yet
			return State{}
		}
		final = true
	case "CreateContainerError", "RunContainerError":
		final = has(w.Message, hopelessStarts...)
	}
	if final {
		s.Failed = s.Waits
	}
	return s
}

// pullPrefix matches what precedes the cause in the error of a pull.
var pullPrefix = regexp.MustCompile(`Back-off pulling image "[^"]*"(: ErrImagePull: )?|rpc error: code = \w+ desc = |failed to pull and unpack image "[^"]*": |failed to resolve (reference|image) "[^"]*": `)

// Words in errors of registries and runtimes that another try would meet again.
var (
	hopelessPulls = []string{"not found", "manifest unknown", "name unknown", "does not exist", "unauthorized", "denied", "forbidden",
		"no basic auth", "authentication required", "http response to https client", "certificate", "no match for platform", "invalid reference"}
	hopelessStarts = []string{"no such file", "not found", "no command", "permission denied", "not a directory"}
)

// has reports whether a message has any of these words, in lower case.
func has(message string, any ...string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc(any, func(words string) bool { return strings.Contains(message, words) })
}

// words joins a reason and its message in one line.
func words(reason, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
