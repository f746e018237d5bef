package submit

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

// A pod may be reported as failed before its program has ended, as on a lost node: its output goes on.
func TestAPodThatFailsBeforeItsProgramEnds(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}}
	require.True(t, kube.Judge(pod).Started)
	o := &observer{changed: make(chan struct{}, 1), over: make(chan struct{})}
	o.set(func() { o.pod = pod })
	select {
	case <-o.over:
		require.Fail(t, "it is not over")
	default:
	}

	// If its output ends anyway, the error says so.
	_, err := (&follower{Run: new(Run), seen: o}).conclude(nil)
	require.EqualError(t, err, "the pod pod: its output has ended, but how the program ended is not known")

	pod = pod.DeepCopy()
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	o.set(func() { o.pod = pod })
	<-o.over
}
