package submit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

func TestAJobBecomesAPod(t *testing.T) {
	t.Parallel()
	pod, secret := submit.Job{
		Program: "My_Program.v2", Image: "r/x@sha256:1", Args: []string{"$(HOME)", "a b"}, Env: []string{"A=$(B)=c", "D=", "F%%=e"},
		CPU: 1.5, Memory: 1 << 30, GPU: 2, GPUResource: "amd.com/gpu", Arch: "arm64", Group: submit.Group,
		Claims: []kube.Claim{{Name: "data", Path: "/persistent"}, {Name: "data", Path: "/again", ReadOnly: true}},
	}.Pod()
	assert.Regexp(t, `^fiber-my-program-v2-[a-z0-9]{6}$`, pod.Name)
	assert.Equal(t, "my-program-v2", pod.Labels[submit.LabelProgram])
	assert.Equal(t, submit.RoleRoot, pod.Labels[submit.LabelRole])
	assert.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	assert.True(t, *pod.Spec.ShareProcessNamespace)
	assert.Equal(t, map[string]string{"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}, pod.Spec.NodeSelector)
	m := pod.Spec.Containers[0]
	assert.Nil(t, m.Command)
	assert.Equal(t, []string{"$$(HOME)", "a b"}, m.Args)
	assert.Equal(t, []corev1.EnvVar{from(secret, "A", "A"), from(secret, "D", "D"), from(secret, "F%%", "variable-2")}, m.Env)
	assert.Equal(t, map[string][]byte{"A": []byte("$(B)=c"), "D": {}, "variable-2": []byte("e")}, secret.Data)
	assert.Equal(t, m.Resources.Requests, m.Resources.Limits)
	assert.Equal(t, "1500m", m.Resources.Limits.Cpu().String())
	assert.Equal(t, "1Gi", m.Resources.Limits.Memory().String())
	gpus := m.Resources.Limits["amd.com/gpu"]
	assert.Equal(t, "2", gpus.String())
	require.Len(t, pod.Spec.Volumes, 1, "one claim is one volume")
	assert.Equal(t, "data", pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	require.Len(t, m.VolumeMounts, 2)
	assert.True(t, m.VolumeMounts[1].ReadOnly)
	assert.EqualValues(t, submit.Group, *pod.Spec.SecurityContext.FSGroup)
}

// A Prometheus of the cluster finds what the root serves, unless it is for the pod alone.
func TestMetricsOfAJob(t *testing.T) {
	t.Parallel()
	template := &corev1.Pod{}
	template.Annotations = map[string]string{"prometheus.io/scrape": "false"}
	pod, _ := submit.Job{Program: "p", Env: []string{"FIBER_METRICS=off", "FIBER_METRICS=:9090"}, Template: template}.Pod()
	assert.Equal(t, []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090}}, pod.Spec.Containers[0].Ports)
	assert.Equal(t, []string{"false", "9090", "/metrics"}, []string{pod.Annotations["prometheus.io/scrape"], pod.Annotations["prometheus.io/port"], pod.Annotations["prometheus.io/path"]})
	template.Spec.Containers = []corev1.Container{{Name: "fiber", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8000}}}}
	pod, _ = submit.Job{Program: "p", Env: []string{"FIBER_METRICS=:9090"}, Template: template}.Pod()
	assert.Equal(t, template.Spec.Containers[0].Ports, pod.Spec.Containers[0].Ports, "a port of the name is there already")
	for _, address := range []string{"", "127.0.0.1:9090", "localhost:9090", "[::1]:9090", ":0"} {
		pod, _ := submit.Job{Program: "p", Env: []string{"FIBER_METRICS=" + address}}.Pod()
		assert.Empty(t, pod.Spec.Containers[0].Ports, address)
		assert.NotContains(t, pod.Annotations, "prometheus.io/port", address)
	}
}

func TestTheUserOfAJob(t *testing.T) {
	t.Parallel()
	for user, root := range map[string]bool{"0:0": true, "65532:65532": false} {
		pod, _ := submit.Job{Program: "cp", Role: submit.RoleCopy, User: user, Restricted: !root}.Pod()
		assert.Equal(t, !root, *pod.Spec.SecurityContext.RunAsNonRoot, "namespaces that forbid root ask for it")
	}
}

// from returns a variable that comes from a secret.
func from(secret *corev1.Secret, name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}, Key: key}}}
}

func TestATemplateSaysTheRest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
metadata: {labels: {team: red}}
spec:
  serviceAccountName: mine
  imagePullSecrets: [{name: pull}]
  nodeSelector: {disk: fast}
  containers: [{name: x, image: ignored, env: [{name: T, value: t}], resources: {limits: {cpu: 4, memory: 1Gi}}}]
`), 0o600))
	template, err := kube.Template(file)
	require.NoError(t, err)
	pod, secret := submit.Job{Name: "p", Image: "i", CPU: 1, Env: []string{"A=b"}, Arch: "amd64", Template: template}.Pod()
	assert.Equal(t, "red", pod.Labels["team"])
	assert.Equal(t, "mine", pod.Spec.ServiceAccountName)
	assert.Equal(t, []corev1.LocalObjectReference{{Name: "pull"}}, pod.Spec.ImagePullSecrets)
	assert.Equal(t, "fast", pod.Spec.NodeSelector["disk"])
	assert.Equal(t, "amd64", pod.Spec.NodeSelector["kubernetes.io/arch"])
	m := pod.Spec.Containers[0]
	assert.Equal(t, "i", m.Image)
	assert.Equal(t, []corev1.EnvVar{{Name: "T", Value: "t"}, from(secret, "A", "A")}, m.Env)
	assert.Equal(t, "1", m.Resources.Limits.Cpu().String())
	assert.Equal(t, "1Gi", m.Resources.Limits.Memory().String())

	_, err = kube.Template(file + "x")
	require.ErrorContains(t, err, "the pod template")
}

func TestJobsThatCanNotBe(t *testing.T) {
	t.Parallel()
	for want, job := range map[string]submit.Job{
		`"My Pod" can't be the name of a pod`: {Name: "My Pod"},
		"two claims are mounted at /x":        {Claims: []kube.Claim{{Name: "a", Path: "/x"}, {Name: "b", Path: "/x"}}},
		"can't be negative":                   {CPU: -1},
	} {
		require.ErrorContains(t, job.Check(), want)
	}
}

func TestWhatGoesAlongOfTheEnvironment(t *testing.T) {
	t.Parallel()
	cfg := config.Config{}.WithDefaults()
	cfg.Backend, cfg.LogLevel, cfg.Registry, cfg.Executable = "kubernetes", "debug", "localhost:5000", "/x"
	cfg.LogFile, cfg.KubernetesVolumes, cfg.RootCPU = "/var/log/x", []string{"data"}, 2
	assert.Equal(t, []string{"FIBER_BACKEND=kubernetes", "FIBER_LOG_LEVEL=debug"}, submit.Settings(cfg))
}
