package submit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
)

// A Job replaces a pod that is being deleted, and soon notices that a node is out of reach, unless the template says when.
func TestTheJobOfAPod(t *testing.T) {
	t.Parallel()
	own := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists}
	pod, _ := Job{Name: "mine", Program: "p", Joined: true, Template: &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{own}}}}.Pod()
	job := batch(pod, 3)
	require.Equal(t, "mine", job.Name)
	require.EqualValues(t, 3, *job.Spec.BackoffLimit)
	require.Equal(t, batchv1.TerminatingOrFailed, *job.Spec.PodReplacementPolicy)
	require.Nil(t, job.Spec.PodFailurePolicy)
	s := job.Spec.Template.Spec
	require.Equal(t, corev1.RestartPolicyNever, s.RestartPolicy)
	require.Equal(t, []corev1.Toleration{own, {Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(unreachable))}}, s.Tolerations)
	require.Contains(t, s.Containers[0].Env, corev1.EnvVar{Name: pid1.FenceKey, Value: "mine"})
	require.Equal(t, RoleRoot, job.Spec.Template.Labels[LabelRole])
}

// The pods of a Job are one program, whichever of them the cluster lists first, and so is a Job between two pods.
func TestAProgramWithSeveralPods(t *testing.T) {
	t.Parallel()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "job"}, Spec: batchv1.JobSpec{BackoffLimit: new(int32(3)),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: kube.Container}}}}}}
	made := time.Now().Add(-time.Minute)
	of := func(name string, age time.Duration) corev1.Pod {
		p := absent(job)
		p.Name, p.UID = name, "uid-"+p.UID
		p.CreationTimestamp = metav1.NewTime(made.Add(-age))
		return p
	}
	old, last := of("mine-a", time.Minute), of("mine-b", 0)
	now := metav1.Now()
	old.DeletionTimestamp = &now
	last.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: kube.Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	for _, pods := range [][]corev1.Pod{{old, last}, {last, old}} {
		f := Found{Roots: []RootPod{{job: job, Pod: absent(job)}}}
		for _, p := range pods {
			f.root(p)
		}
		require.Len(t, f.Roots, 1)
		require.Equal(t, "mine", f.Roots[0].Name())
		require.Equal(t, "mine-b", f.Roots[0].Pod.Name)
		require.Equal(t, "running", f.Roots[0].Status())
	}
	f := Found{Roots: []RootPod{{job: job, Pod: absent(job)}}}
	require.Equal(t, "restarting", f.Roots[0].Status())
	require.False(t, f.Roots[0].Ended())
	f.root(old)
	require.Equal(t, "restarting", f.Roots[0].Status())
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	require.True(t, RootPod{job: job, Pod: absent(job)}.Ended())
	require.Equal(t, "failed", RootPod{job: job, Pod: absent(job)}.Status())
}
