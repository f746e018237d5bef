package submit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func waiting(reason, message string) *corev1.Pod {
	return status(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func status(s corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: Container, State: s}}},
	}
}

func unscheduled(message string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}}}
}

func TestWhatAPodWaitsFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod           *corev1.Pod
		waits, failed string
	}{
		"nothing yet": {&corev1.Pod{}, "", ""},
		"being made":  {waiting("ContainerCreating", ""), "", ""},
		"room": {unscheduled("0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are"),
			"0/1 nodes are available: 1 Insufficient cpu.", ""},
		"claim": {unscheduled(`0/1 nodes are available: persistentvolumeclaim "nope" not found. not found`),
			`0/1 nodes are available: persistentvolumeclaim "nope" not found. not found`, "the namespace has no claim nope"},
		"image that is not there": {waiting("ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image "x:1": failed to resolve reference "x:1": x:1: not found`),
			"the image can't be pulled: x:1: not found", "the image can't be pulled: x:1: not found"},
		"registry that is away": {waiting("ImagePullBackOff", `Back-off pulling image "x:1": ErrImagePull: failed to pull and unpack image "x:1": failed to resolve reference "x:1": dial tcp: lookup x: no such host`),
			"the image can't be pulled: dial tcp: lookup x: no such host", ""},
		"image's name":  {waiting("InvalidImageName", "couldn't parse"), "", "InvalidImageName: couldn't parse"},
		"configuration": {waiting("CreateContainerConfigError", `secret "x" not found`), "", `CreateContainerConfigError: secret "x" not found`},
		"command": {status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, Message: `exec: "foo": executable file not found in $PATH`}}),
			"", `exec: "foo": executable file not found in $PATH`},
		"evicted": {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}}, "", "Evicted: low on memory"},
	} {
		s := judge(test.pod)
		assert.Equal(t, test.waits, s.waits, name)
		assert.Equal(t, test.failed, s.failed, name)
		assert.False(t, s.started, name)
	}
}

func TestHowAPodEnds(t *testing.T) {
	t.Parallel()
	pod := status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}})
	s := judge(pod)
	assert.True(t, s.started)
	code, words := exit(pod, s.ended)
	assert.Equal(t, 137, code)
	assert.Contains(t, words, "OOMKilled")

	pod = status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}})
	code, words = exit(pod, judge(pod).ended)
	assert.Equal(t, 3, code)
	assert.Empty(t, words)
}
