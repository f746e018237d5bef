package submit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/kube"
)

func TestHowAPodEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		how   corev1.ContainerStateTerminated
		code  int
		words string
	}{
		"memory": {corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}, 137, "it has used more memory than it may (OOMKilled)"},
		"code":   {corev1.ContainerStateTerminated{ExitCode: 3}, 3, ""},
		"signal": {corev1.ContainerStateTerminated{Signal: 9}, 137, ""},
	} {
		pod, _ := kube.NewPod(nil)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: kube.Container, State: corev1.ContainerState{Terminated: &test.how}}}
		code, words := exit(pod, kube.Judge(pod))
		assert.Equal(t, test.code, code, name)
		assert.Equal(t, test.words, words, name)
	}
}
