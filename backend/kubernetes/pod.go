package kubernetes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/container/delivery"
	"github.com/fiber-go/fiber/internal/container/pid1"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/names"
)

// The labels of a run's pods and secrets, in addition to those of package kube.
const (
	labelName    = "fiber.name"    // the process's name
	labelParent  = "fiber.parent"  // the name of the process that started it
	labelPod     = "fiber.pod"     // the pod's own name
	labelSession = "fiber.session" // the backend that made it
	labelRoot    = "fiber.root"    // the machine and user of a run's root; see rootLabel
)

// endGrace is how many seconds a pod has to end that is deleted from outside.
const endGrace = 10

// pod returns the description of a job's pod for the cluster. The secret env has its environment. Output tells its init how to
// find the reader of its output; it is "" without a reader.
func (b *Backend) pod(c *cluster, img prepared, env, output string, spec backend.JobSpec) *corev1.Pod {
	pod, m := kube.NewPod(c.template)
	inherit(pod, m, c.self)
	own := b.meta(c, names.Unique(spec.Name, 10), spec)
	maps.Copy(pod.Labels, own.Labels)
	maps.Copy(pod.Annotations, own.Annotations)
	pod.Name, pod.OwnerReferences = own.Name, own.OwnerReferences
	pod.Labels[labelPod], pod.Labels[labelName], pod.Labels[labelParent] = pod.Name, names.Label(spec.Name), names.Label(spec.Parent)
	s := &pod.Spec
	kube.Default(&s.AutomountServiceAccountToken, new(false)) // only the root talks to the cluster
	kube.Default(&s.EnableServiceLinks, new(false))
	kube.Default(&s.TerminationGracePeriodSeconds, new(int64(endGrace)))
	m.Image, m.Command, m.Args = img.name, kube.Verbatim(img.command...), kube.Verbatim(spec.Args...)
	kube.Default(&m.ImagePullPolicy, corev1.PullIfNotPresent)
	m.EnvFrom = append([]corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: env}}}}, m.EnvFrom...)
	set := backend.Limits(spec.Resources)
	set[pid1.Key] = pid1.Value
	if output != "" {
		set[delivery.Key] = output
	}
	for _, kv := range spec.Public {
		key, value, _ := strings.Cut(kv, "=")
		set[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		kube.Setenv(m, key, set[key])
	}
	r := spec.Resources
	kube.Need(m, r.CPU, int64(r.Memory)<<20, r.GPU, b.cfg.KubernetesGPUResource)
	if img.own {
		kube.Restrict(s, m)
	}
	kube.Mount(s, m, c.claims)
	avoid(s, spec.Avoid)
	return pod
}

// avoid has the cluster prefer other nodes than these for a pod, in addition to the affinity that it already has.
func avoid(s *corev1.PodSpec, nodes []string) {
	if len(nodes) == 0 {
		return
	}
	kube.Default(&s.Affinity, new(corev1.Affinity))
	kube.Default(&s.Affinity.NodeAffinity, new(corev1.NodeAffinity))
	var others corev1.NodeSelectorTerm
	for _, node := range nodes { // the API takes one name per requirement
		others.MatchFields = append(others.MatchFields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField,
			Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
	}
	preferred := &s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{Weight: 100, Preference: others})
}

// inherit copies to a pod and its container m the settings of self, the pod that this process is in, unless the template has
// set them.
func inherit(pod *corev1.Pod, m *corev1.Container, self *corev1.Pod) {
	if self == nil {
		return
	}
	self = self.DeepCopy()
	s, from, main := &pod.Spec, &self.Spec, kube.Main(self)
	kube.Default(&s.ServiceAccountName, from.ServiceAccountName)
	kube.Default(&s.NodeSelector, from.NodeSelector)
	kube.Default(&s.Tolerations, from.Tolerations)
	kube.Default(&s.ImagePullSecrets, from.ImagePullSecrets)
	kube.Default(&s.Affinity, from.Affinity)
	kube.Default(&s.PriorityClassName, from.PriorityClassName)
	kube.Default(&s.RuntimeClassName, from.RuntimeClassName)
	kube.Default(&s.SecurityContext, from.SecurityContext)
	kube.Default(&m.SecurityContext, main.SecurityContext)
	kube.Default(&m.WorkingDir, main.WorkingDir)
	kube.Default(&m.ImagePullPolicy, main.ImagePullPolicy)
	var wanted []string
	for _, v := range main.VolumeMounts {
		there := slices.ContainsFunc(m.VolumeMounts, func(of corev1.VolumeMount) bool { return of.MountPath == v.MountPath })
		taken := slices.ContainsFunc(s.Volumes, func(of corev1.Volume) bool { return of.Name == v.Name })
		if v.MountPath != serviceAccountPath && !there && !taken {
			wanted = append(wanted, v.Name)
			m.VolumeMounts = append(m.VolumeMounts, v)
		}
	}
	for _, v := range from.Volumes {
		if slices.Contains(wanted, v.Name) {
			s.Volumes = append(s.Volumes, v)
		}
	}
}

// serviceAccountPath is where a pod has the token of its service account, which
// its children do not inherit.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
