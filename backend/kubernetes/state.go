package kubernetes

import (
	"fmt"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend"
)

// state is what a pod's status says of a job.
type state struct {
	pending       string // why it waits, "" for nothing worth telling
	unschedulable bool   // that is that no node has room
	pulling       bool   // or that the image cannot be pulled
	fatal         string // why it will never start
	ran           bool   // its process was started
	ended         bool
	status        backend.ExitStatus // then
}

// maxSignal is the highest signal that an exit code may stand for.
const maxSignal = 64

// exited is the status of an exit code.
func exited(code int) backend.ExitStatus {
	status := backend.ExitStatus{Code: code}
	if n := code - 128; n > 0 && n <= maxSignal {
		status.Signal = syscall.Signal(n)
	}
	return status
}

// statusOf is the status of a pod's container, nil when there is none yet.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s
		}
	}
	return nil
}

// stateOf reads a pod's status, which it has in many places.
func stateOf(pod *corev1.Pod, container string) (st state) {
	status := statusOf(pod, container)
	switch {
	case status != nil && status.State.Terminated != nil:
		return ofTerminated(pod, status.State.Terminated)
	case status != nil && status.State.Running != nil:
		return state{ran: true}
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		// Its node would not have it, or gave it up.
		st.ended, st.status = true, backend.ExitStatus{Code: -1, Reason: words(pod.Status.Reason, pod.Status.Message)}
		if status == nil || status.LastTerminationState.Terminated == nil {
			st.fatal = st.status.Reason
		}
		return st
	case status != nil && status.State.Waiting != nil:
		return ofWaiting(status.State.Waiting)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return state{pending: words(c.Reason, c.Message), unschedulable: true}
		}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			st.pending = words(c.Reason, c.Message)
		}
	}
	for _, init := range pod.Status.InitContainerStatuses {
		if t := init.State.Terminated; t != nil && t.ExitCode != 0 {
			return state{fatal: fmt.Sprintf("its init container %s failed: exit code %d %s", init.Name, t.ExitCode, words(t.Reason, t.Message))}
		}
		if w := init.State.Waiting; w != nil {
			if of := ofWaiting(w); of.fatal != "" || of.pending != "" {
				return of
			}
		}
	}
	return st
}

func ofTerminated(pod *corev1.Pod, t *corev1.ContainerStateTerminated) state {
	switch t.Reason {
	case "StartError", "ContainerCannotRun", "ContainerStatusUnknown":
		if t.Reason != "ContainerStatusUnknown" {
			return state{ended: true, fatal: words(t.Reason, t.Message), status: exited(int(t.ExitCode))}
		}
	}
	st := state{ran: true, ended: true, status: exited(int(t.ExitCode))}
	st.status.OOMKilled = t.Reason == "OOMKilled"
	if pod.Status.Reason != "" { // Evicted, DeadlineExceeded …
		st.status.Reason = words(pod.Status.Reason, pod.Status.Message)
	}
	return st
}

// ofWaiting tells what passes by itself from what does not.
func ofWaiting(w *corev1.ContainerStateWaiting) state {
	text := words(w.Reason, w.Message)
	switch w.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return state{}
	case "InvalidImageName", "ErrImageNeverPull", "ErrImageNameInvalid":
		return state{fatal: text}
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable":
		st := state{pending: text, pulling: w.Reason == "ErrImagePull"}
		if st.pulling && hopeless(w.Message) {
			st.fatal = text
		}
		return st
	case "CreateContainerConfigError":
		if strings.Contains(w.Message, "timed out") || strings.Contains(w.Message, "failed to sync") {
			return state{pending: text} // the node has not heard of everything yet
		}
		return state{fatal: text}
	case "RunContainerError", "CreateContainerError":
		for _, word := range []string{"no such file", "not found", "no command", "permission denied", "not a directory"} {
			if strings.Contains(w.Message, word) {
				return state{fatal: text}
			}
		}
	}
	return state{pending: text}
}

// hopeless says whether a pull will fail the next time, too, by the words of
// registries.
func hopeless(message string) bool {
	message = strings.ToLower(message)
	for _, word := range []string{"not found", "manifest unknown", "name unknown", "unauthorized", "denied", "forbidden",
		"does not exist", "no match for platform", "invalid reference"} {
		if strings.Contains(message, word) {
			return true
		}
	}
	return false
}

// words joins a reason and what is said about it.
func words(reason, message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
