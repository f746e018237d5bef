package kubernetes

import (
	"crypto/rand"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/pid1"
)

// The labels of Fiber's pods and secrets.
const (
	LabelManaged = "app.kubernetes.io/managed-by" // fiber
	LabelRun     = "fiber.run"                    // the run's id
	LabelName    = "fiber.name"                   // the process's name
	LabelParent  = "fiber.parent"                 // the name of the process that started it
	LabelSession = "fiber.session"                // which backend made it
	LabelMaster  = "fiber.master"                 // the machine of a run whose first process is no pod
)

// endGrace is how many seconds a pod has to end that somebody else deletes.
const endGrace = 10

// pod says what the cluster is to make.
func (b *Backend) pod(c *cluster, img prepared, env string, spec backend.JobSpec) *corev1.Pod {
	pod := &corev1.Pod{}
	if c.template != nil {
		pod = c.template.DeepCopy()
	}
	inherit(pod, c.self)
	own := b.meta(c, podName(spec.Name), spec)
	own.Labels[LabelName], own.Labels[LabelParent] = labelValue(spec.Name), labelValue(spec.Parent)
	pod.Name, pod.OwnerReferences = own.Name, own.OwnerReferences
	pod.Labels, pod.Annotations = merged(pod.Labels, own.Labels), merged(pod.Annotations, own.Annotations)
	no, yes, grace := false, true, int64(endGrace)
	s := &pod.Spec
	s.RestartPolicy = corev1.RestartPolicyNever
	if s.ShareProcessNamespace == nil && !s.HostPID {
		s.ShareProcessNamespace = &yes
	}
	if s.AutomountServiceAccountToken == nil {
		s.AutomountServiceAccountToken = &no // nothing is asked of the cluster from there
	}
	if s.EnableServiceLinks == nil {
		s.EnableServiceLinks = &no
	}
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = &grace
	}
	m := &s.Containers[0]
	m.Image, m.Command, m.Args = img.name, escaped(img.command), escaped(spec.Args)
	if m.ImagePullPolicy == "" {
		m.ImagePullPolicy = corev1.PullIfNotPresent
	}
	m.EnvFrom = append([]corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: env}}}}, m.EnvFrom...)
	set := merged(backend.Limits(spec.Resources), pid1.Joined())
	for _, kv := range spec.Public {
		key, value, _ := strings.Cut(kv, "=")
		set[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		m.Env = append(m.Env, corev1.EnvVar{Name: key, Value: escape(set[key])})
	}
	b.resources(m, spec)
	b.mount(s, m)
	return pod
}

// inherit gives a pod what the pod has that this process is in, as far as the
// template does not say otherwise.
func inherit(pod, self *corev1.Pod) {
	s := &pod.Spec
	if len(s.Containers) == 0 {
		s.Containers = []corev1.Container{{Name: "fiber"}}
	}
	if s.Containers[0].Name == "" {
		s.Containers[0].Name = "fiber"
	}
	if self == nil {
		return
	}
	from := self.Spec.DeepCopy()
	main, _ := ownContainer(self)
	m := &s.Containers[0]
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = from.ServiceAccountName
	}
	if s.NodeSelector == nil {
		s.NodeSelector = from.NodeSelector
	}
	if s.Tolerations == nil {
		s.Tolerations = from.Tolerations
	}
	if s.ImagePullSecrets == nil {
		s.ImagePullSecrets = from.ImagePullSecrets
	}
	if s.Affinity == nil {
		s.Affinity = from.Affinity
	}
	if s.PriorityClassName == "" {
		s.PriorityClassName = from.PriorityClassName
	}
	if s.RuntimeClassName == nil {
		s.RuntimeClassName = from.RuntimeClassName
	}
	if s.SecurityContext == nil {
		s.SecurityContext = from.SecurityContext
	}
	if m.SecurityContext == nil {
		m.SecurityContext = main.SecurityContext
	}
	if m.WorkingDir == "" {
		m.WorkingDir = main.WorkingDir
	}
	if m.ImagePullPolicy == "" {
		m.ImagePullPolicy = main.ImagePullPolicy
	}
	taken := map[string]bool{}
	for _, v := range s.Volumes {
		taken[v.Name] = true
	}
	places := map[string]bool{}
	for _, v := range m.VolumeMounts {
		places[v.MountPath] = true
	}
	wanted := map[string]bool{}
	for _, v := range main.VolumeMounts {
		if v.MountPath != serviceAccountPath && !places[v.MountPath] && !taken[v.Name] {
			wanted[v.Name] = true
			m.VolumeMounts = append(m.VolumeMounts, v)
		}
	}
	for _, v := range from.Volumes {
		if wanted[v.Name] {
			s.Volumes = append(s.Volumes, v)
		}
	}
}

// serviceAccountPath is where a pod has its service account's token, which its
// children do not get.
const serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// resources asks for what the job needs, and limits it to that.
func (b *Backend) resources(m *corev1.Container, spec backend.JobSpec) {
	r := spec.Resources
	need := corev1.ResourceList{}
	if r.CPU > 0 {
		need[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(r.CPU*1000), resource.DecimalSI)
	}
	if r.Memory > 0 {
		need[corev1.ResourceMemory] = *resource.NewQuantity(int64(r.Memory)<<20, resource.BinarySI)
	}
	if r.GPU > 0 {
		need[corev1.ResourceName(b.opts.GPUResource)] = *resource.NewQuantity(int64(r.GPU), resource.DecimalSI)
	}
	m.Resources.Requests, m.Resources.Limits = merged(m.Resources.Requests, need), merged(m.Resources.Limits, need)
}

// mount mounts the claims of the configuration, unless something is mounted
// there already: what the template or this process's own pod has.
func (b *Backend) mount(s *corev1.PodSpec, m *corev1.Container) {
	volumes := map[string]string{} // by claim
	for _, v := range s.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes[v.PersistentVolumeClaim.ClaimName] = v.Name
		}
	}
	for _, item := range b.opts.Volumes {
		claim, path, _ := strings.Cut(item, ":")
		path, mode, _ := strings.Cut(path, ":")
		if slices.ContainsFunc(m.VolumeMounts, func(v corev1.VolumeMount) bool { return v.MountPath == path }) {
			continue
		}
		if volumes[claim] == "" {
			volumes[claim] = "fiber-" + strings.ReplaceAll(claim, ".", "-")
			s.Volumes = append(s.Volumes, corev1.Volume{Name: volumes[claim], VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
		m.VolumeMounts = append(m.VolumeMounts, corev1.VolumeMount{Name: volumes[claim], MountPath: path, ReadOnly: mode == "ro"})
	}
}

func merged[K comparable, V any](all ...map[K]V) map[K]V {
	out := map[K]V{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// escape keeps the cluster from replacing $(NAME) in a text.
func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func escaped(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, escape(s))
	}
	return out
}

var (
	unnameable  = regexp.MustCompile(`[^a-z0-9-]+`)
	unlabelable = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)
)

const (
	nameLength  = 30 // of a process's name in a pod's
	labelLength = 63
)

// podName makes a name that a pod may have, and that no other one has, of a
// process's.
func podName(name string) string {
	name = unnameable.ReplaceAllString(strings.ToLower(name), "-")
	name = strings.Trim(name[:min(len(name), nameLength)], "-")
	return "fiber-" + strings.TrimPrefix(name+"-", "-") + strings.ToLower(rand.Text()[:10])
}

// labelValue makes a value that a label may have.
func labelValue(s string) string {
	s = unlabelable.ReplaceAllString(s, "-")
	return strings.Trim(s[:min(len(s), labelLength)], "-._")
}
