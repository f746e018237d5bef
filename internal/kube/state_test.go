package kube_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
}

func terminated(code int32, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}}}}
}

func unplaced(message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}}
}

// says returns what a state means, in a few words.
func says(s kube.State) string {
	var all []string
	add := func(is bool, word string) {
		if is {
			all = append(all, word)
		}
	}
	add(s.Started, "started")
	add(s.Waits != "", "waits: "+s.Waits)
	add(s.Unplaced(), "no room")
	add(s.Reason == "ErrImagePull" || s.Reason == "ImagePullBackOff", "no image")
	add(s.Failed != "", "never: "+s.Failed)
	add(s.Over, "over")
	add(s.Ended != nil, "ended")
	add(s.Note != "", s.Note)
	return strings.Join(all, ", ")
}

func TestWhatAPodsStatusMeans(t *testing.T) {
	t.Parallel()
	const missing = `rpc error: code = NotFound desc = failed to pull and unpack image "x:1": failed to resolve reference "x:1": x:1: not found`
	evicted := terminated(137, "Error", "")
	evicted.Reason, evicted.Message = "Evicted", "The node was low on memory"
	inits := corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
		{Name: "fetch", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}}}}
	failedInits, imageless := inits, waiting("PodInitializing", "")
	failedInits.Phase, failedInits.ContainerStatuses = corev1.PodFailed, imageless.ContainerStatuses
	imageless.InitContainerStatuses = waiting("ErrImagePull", missing).ContainerStatuses
	for name, test := range map[string]struct {
		status corev1.PodStatus
		says   string
	}{
		"new":        {corev1.PodStatus{Phase: corev1.PodPending}, ""},
		"being made": {waiting("ContainerCreating", ""), ""},
		"no room": {unplaced("0/1 nodes are available:\n1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are"),
			"waits: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu., no room"},
		"no claim": {unplaced(`0/1 nodes are available: persistentvolumeclaim "nope" not found. not found`),
			`waits: Unschedulable: 0/1 nodes are available: persistentvolumeclaim "nope" not found. not found, no room, never: the namespace has no claim nope`},
		"pull, may heal":     {waiting("ErrImagePull", "i/o timeout"), "waits: ErrImagePull: i/o timeout, no image"},
		"pull, backs off":    {waiting("ImagePullBackOff", `Back-off pulling image "x:1": ErrImagePull: dial tcp: lookup x: no such host`), "waits: ImagePullBackOff: dial tcp: lookup x: no such host, no image"},
		"pull, hopeless":     {waiting("ErrImagePull", missing), "waits: ErrImagePull: x:1: not found, no image, never: ErrImagePull: x:1: not found"},
		"pull, later":        {waiting("ErrImagePull", "pull QPS exceeded"), "waits: ErrImagePull: pull QPS exceeded"},
		"bad name":           {waiting("InvalidImageName", "x"), "waits: InvalidImageName: x, never: InvalidImageName: x"},
		"no secret":          {waiting("CreateContainerConfigError", `secret "x" not found`), `waits: CreateContainerConfigError: secret "x" not found, never: CreateContainerConfigError: secret "x" not found`},
		"secret, may heal":   {waiting("CreateContainerConfigError", "failed to sync secret cache: timed out"), ""},
		"no program":         {waiting("RunContainerError", `"/x": no such file`), `waits: RunContainerError: "/x": no such file, never: RunContainerError: "/x": no such file`},
		"slow":               {waiting("CreateContainerError", "context deadline exceeded"), "waits: CreateContainerError: context deadline exceeded"},
		"no program, ended":  {terminated(128, "StartError", "no such file"), "never: StartError: no such file, over, ended"},
		"done":               {terminated(0, "Completed", ""), "started, over, ended"},
		"evicted":            {evicted, "started, over, ended, Evicted: The node was low on memory"},
		"refused by node":    {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no CPU"}, "never: OutOfcpu: no CPU, over, OutOfcpu: no CPU"},
		"init container":     {inits, "never: its init container fetch failed: exit code 2 Error"},
		"init, all over":     {failedInits, "never: its init container fetch failed: exit code 2 Error, over, its init container fetch failed: exit code 2 Error"},
		"init, no image":     {imageless, "waits: ErrImagePull: x:1: not found, no image, never: ErrImagePull: x:1: not found"},
		"failed, no words":   {corev1.PodStatus{Phase: corev1.PodFailed}, "never: its pod has failed before its program began, over, its pod has failed before its program began"},
		"only the other one": {corev1.PodStatus{ContainerStatuses: waiting("", "").ContainerStatuses[:1]}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, _ := kube.NewPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}})
			pod.Spec.Containers = append([]corev1.Container{{Name: "sidecar"}}, pod.Spec.Containers...) // as a service mesh does
			pod.Status = test.status
			require.Equal(t, test.says, says(kube.Judge(pod)))
		})
	}
}
