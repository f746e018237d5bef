package kubernetes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/backend/kubernetes"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/meta"
)

// root is a pod that a run's root may be in.
func root() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "root", Namespace: "team", UID: "1-2-3"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "fiber", NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations:      []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "kube-api-access-x"}, {Name: "unused"}},
			Containers: []corev1.Container{{Name: "main", Image: "app:v1", VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: "/persistent"},
				{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ImageID: "registry.example.com/app@sha256:0123"}}},
	}
}

func podOf(t *testing.T, opts config.Config, self *corev1.Pod, path string, spec backend.JobSpec) *corev1.Pod {
	t.Helper()
	pod, err := kubernetes.PodOf(opts, self, "image:1", path, spec)
	require.NoError(t, err)
	return pod
}

func TestAPodOfAJob(t *testing.T) {
	t.Parallel()
	pod := podOf(t, config.Config{}, nil, "", backend.JobSpec{Name: "PoolWorker 1/ä", Run: "run1", Parent: "MainProcess",
		Args: []string{"-x", "$(HOME)"}, Env: []string{"TOKEN=secret"}, Public: []string{"FIBER_BOOTSTRAP={$}"},
		Resources: meta.Resources{CPU: 1.5, Memory: 300, GPU: 2}})
	require.Regexp(t, `^fiber-poolworker-1-[a-z0-9]{10}$`, pod.Name)
	require.Equal(t, "run1", pod.Labels["fiber.run"])
	require.Equal(t, "PoolWorker-1", pod.Labels["fiber.name"])
	require.Equal(t, "MainProcess", pod.Labels["fiber.parent"])
	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	require.True(t, *pod.Spec.ShareProcessNamespace, "user code is process 1")
	require.False(t, *pod.Spec.AutomountServiceAccountToken)
	main := pod.Spec.Containers[0]
	require.Equal(t, "image:1", main.Image)
	require.Empty(t, main.Command)
	require.Equal(t, []string{"-x", "$$(HOME)"}, main.Args)
	require.Equal(t, "environment", main.EnvFrom[0].SecretRef.Name)
	env := map[string]string{}
	for _, e := range main.Env {
		env[e.Name] = e.Value
	}
	require.Equal(t, map[string]string{"FIBER_BOOTSTRAP": "{$$}", "FIBER_INIT": "joined", "GOMAXPROCS": "2", "GOMEMLIMIT": "276480KiB"}, env)
	for _, list := range []corev1.ResourceList{main.Resources.Requests, main.Resources.Limits} {
		require.Equal(t, "1500m", list.Cpu().String())
		require.Equal(t, "300Mi", list.Memory().String())
		gpus := list["nvidia.com/gpu"]
		require.Equal(t, "2", gpus.String())
	}
}

func TestAPodTakesOverWhatTheRootsHas(t *testing.T) {
	t.Parallel()
	pod := podOf(t, config.Config{}, root(), "/fiber/program", backend.JobSpec{Name: "Process-1"})
	require.Equal(t, []string{"/fiber/program"}, pod.Spec.Containers[0].Command)
	require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "root", UID: "1-2-3"}}, pod.OwnerReferences)
	require.Equal(t, "fiber", pod.Spec.ServiceAccountName)
	require.False(t, *pod.Spec.AutomountServiceAccountToken, "a child gets the cluster's credentials")
	require.Equal(t, map[string]string{"disk": "ssd"}, pod.Spec.NodeSelector)
	require.Equal(t, "gpu", pod.Spec.Tolerations[0].Key)
	require.Equal(t, "pull", pod.Spec.ImagePullSecrets[0].Name)
	require.Equal(t, []corev1.VolumeMount{{Name: "data", MountPath: "/persistent"}}, pod.Spec.Containers[0].VolumeMounts)
	require.Len(t, pod.Spec.Volumes, 1)
	require.Equal(t, "registry.example.com/app@sha256:0123", kubernetes.ImageOf(root()))

	elsewhere := root()
	elsewhere.Namespace = "other"
	pod = podOf(t, config.Config{}, elsewhere, "", backend.JobSpec{Name: "Process-1"})
	require.Empty(t, pod.OwnerReferences, "an owner in another namespace would have it removed at once")
}

func TestClaims(t *testing.T) {
	t.Parallel()
	opts := config.Config{KubernetesVolumes: []string{"data:/persistent", "data:/more:ro", "models.v1:/models"}}
	pod := podOf(t, opts, nil, "", backend.JobSpec{Name: "Process-1"})
	require.Equal(t, []corev1.VolumeMount{{Name: "fiber-data", MountPath: "/persistent"}, {Name: "fiber-data", MountPath: "/more", ReadOnly: true},
		{Name: "fiber-models-v1", MountPath: "/models"}}, pod.Spec.Containers[0].VolumeMounts)
	require.Len(t, pod.Spec.Volumes, 2)
	pod = podOf(t, opts, root(), "", backend.JobSpec{Name: "Process-1"})
	require.Equal(t, []corev1.VolumeMount{{Name: "data", MountPath: "/persistent"}, {Name: "data", MountPath: "/more", ReadOnly: true},
		{Name: "fiber-models-v1", MountPath: "/models"}}, pod.Spec.Containers[0].VolumeMounts, "what the root has counts")
}

func template(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	opts := config.Config{KubernetesGPUResource: "amd.com/gpu", PodTemplate: template(t, `
metadata: {labels: {team: vision}}
spec:
  nodeSelector: {zone: a}
  priorityClassName: batch
  containers:
    - name: main
      image: ignored
      env: [{name: MODE, value: fast}]
      resources: {requests: {cpu: 100m, ephemeral-storage: 1Gi}}
      volumeMounts: [{name: scratch, mountPath: /scratch}]
    - {name: sidecar, image: proxy:1}
  volumes: [{name: scratch, emptyDir: {}}]
`)}
	pod := podOf(t, opts, root(), "", backend.JobSpec{Name: "Process-1", Resources: meta.Resources{CPU: 2, GPU: 1}})
	require.Equal(t, "vision", pod.Labels["team"])
	require.Equal(t, map[string]string{"zone": "a"}, pod.Spec.NodeSelector, "the template counts")
	require.Equal(t, "batch", pod.Spec.PriorityClassName)
	require.Equal(t, "gpu", pod.Spec.Tolerations[0].Key, "and the root's pod for what it does not say")
	require.Len(t, pod.Spec.Containers, 2)
	main := pod.Spec.Containers[0]
	require.Equal(t, "image:1", main.Image)
	require.Equal(t, "MODE", main.Env[0].Name)
	require.Equal(t, "2", main.Resources.Requests.Cpu().String())
	require.Equal(t, "1Gi", main.Resources.Requests.StorageEphemeral().String())
	gpus := main.Resources.Limits["amd.com/gpu"]
	require.Equal(t, "1", gpus.String())
	require.Len(t, main.VolumeMounts, 2)

	for text, says := range map[string]string{
		"kind: Deployment":               "is a Deployment, but must be a Pod",
		"spec: {nodeSelecter: {a: b}}":   "nodeSelecter",
		"spec: [":                        "yaml",
		"spec: {containers: {image: x}}": "containers",
	} {
		_, err := kubernetes.PodOf(config.Config{PodTemplate: template(t, text)}, nil, "", "", backend.JobSpec{})
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "pod.yaml")
	}
}

// Avoided nodes are a preference, in addition to those of the template.
func TestAPodAvoidsNodes(t *testing.T) {
	t.Parallel()
	require.Nil(t, podOf(t, config.Config{}, nil, "", backend.JobSpec{Name: "p"}).Spec.Affinity)
	avoids := corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"node1"}},
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"node2"}}}}}
	spec := backend.JobSpec{Name: "p", Avoid: []string{"node1", "node2"}}
	pod := podOf(t, config.Config{}, nil, "", spec)
	require.Equal(t, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{avoids}}}, pod.Spec.Affinity)

	self := root()
	ssd := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
	self.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: new(corev1.PodAntiAffinity), NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{ssd}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: ssd}}}}
	want := self.Spec.Affinity.DeepCopy()
	want.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(want.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, avoids)
	for range 2 { // what is inherited stays as it is
		require.Equal(t, want, podOf(t, config.Config{}, self, "/fiber/program", spec).Spec.Affinity)
	}
}
