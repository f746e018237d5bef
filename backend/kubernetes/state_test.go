package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/backend/kubernetes"
)

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "fiber", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
}

func terminated(code int32, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "fiber", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}}}}
}

func TestWhatAPodsStatusMeans(t *testing.T) {
	t.Parallel()
	unschedulable := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available:\n1 Insufficient cpu."}}}
	evicted := terminated(137, "Error", "")
	evicted.Reason, evicted.Message = "Evicted", "The node was low on memory"
	inits := corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
		{Name: "fetch", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}}}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		says   string
	}{
		"new":                {corev1.PodStatus{Phase: corev1.PodPending}, ""},
		"being made":         {waiting("ContainerCreating", ""), ""},
		"no room":            {unschedulable, "waits: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu., no room"},
		"pull, may heal":     {waiting("ErrImagePull", "i/o timeout"), "waits: ErrImagePull: i/o timeout"},
		"pull, backs off":    {waiting("ImagePullBackOff", "Back-off"), "waits: ImagePullBackOff: Back-off"},
		"pull, hopeless":     {waiting("ErrImagePull", "manifest unknown"), "waits: ErrImagePull: manifest unknown, never: ErrImagePull: manifest unknown"},
		"bad name":           {waiting("InvalidImageName", "x"), "never: InvalidImageName: x"},
		"no secret":          {waiting("CreateContainerConfigError", `secret "x" not found`), `never: CreateContainerConfigError: secret "x" not found`},
		"secret, may heal":   {waiting("CreateContainerConfigError", "failed to sync secret cache: timed out"), "waits: CreateContainerConfigError: failed to sync secret cache: timed out"},
		"no program":         {waiting("RunContainerError", `exec: "/x": no such file or directory`), `never: RunContainerError: exec: "/x": no such file or directory`},
		"slow":               {waiting("CreateContainerError", "context deadline exceeded"), "waits: CreateContainerError: context deadline exceeded"},
		"no program, ended":  {terminated(128, "StartError", "no such file"), "never: StartError: no such file, ended: exit code 128"},
		"done":               {terminated(0, "Completed", ""), "ran, ended: exit code 0"},
		"failed":             {terminated(3, "Error", ""), "ran, ended: exit code 3"},
		"killed":             {terminated(137, "Error", ""), "ran, ended: signal: killed"},
		"memory":             {terminated(137, "OOMKilled", ""), "ran, ended: signal: killed, OOMKilled"},
		"high code":          {terminated(255, "Error", ""), "ran, ended: exit code 255"},
		"evicted":            {evicted, "ran, ended: signal: killed: Evicted: The node was low on memory"},
		"refused by node":    {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no CPU"}, "never: OutOfcpu: no CPU, ended: exit code -1: OutOfcpu: no CPU"},
		"init container":     {inits, "never: its init container fetch failed: exit code 2 Error"},
		"only the other one": {corev1.PodStatus{ContainerStatuses: waiting("", "").ContainerStatuses[:1]}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.says, kubernetes.Says(&corev1.Pod{Status: test.status}, "fiber"))
		})
	}
}
