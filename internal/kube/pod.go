package kube

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/config"
)

// The labels of what Fiber makes.
const (
	LabelManaged = "app.kubernetes.io/managed-by" // Manager
	Manager      = "fiber"
	LabelRun     = "fiber.run" // the run's id
)

// Managed selects what Fiber has made.
const Managed = LabelManaged + "=" + Manager

const (
	// Container is what the container is called that the program runs in, unless a template names it.
	Container = "fiber"
	// mainContainer is the annotation that names it among others, as for kubectl: some clusters put their own ones before it.
	mainContainer = "kubectl.kubernetes.io/default-container"
)

// NewPod makes a pod that runs one program once, of a template, which may be nil, and the program's container in it.
func NewPod(template *corev1.Pod) (*corev1.Pod, *corev1.Container) {
	pod := &corev1.Pod{}
	if template != nil {
		pod = template.DeepCopy()
	}
	pod.GenerateName = ""
	s := &pod.Spec
	if len(s.Containers) == 0 {
		s.Containers = []corev1.Container{{}}
	}
	m := &s.Containers[0]
	Default(&m.Name, Container)
	pod.Annotations = merged(pod.Annotations, map[string]string{mainContainer: m.Name})
	pod.Labels = merged(pod.Labels, map[string]string{LabelManaged: Manager})
	s.RestartPolicy = corev1.RestartPolicyNever
	if s.ShareProcessNamespace == nil && !s.HostPID {
		share := true // the pause container is process 1, and not the program
		s.ShareProcessNamespace = &share
	}
	return pod, m
}

// Default sets what is not set.
func Default[T any](what *T, value T) {
	if reflect.ValueOf(what).Elem().IsZero() {
		*what = value
	}
}

// Main is the container of a pod that the program runs in: the one that the pod names, or else the first.
func Main(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == pod.Annotations[mainContainer] {
			return &pod.Spec.Containers[i]
		}
	}
	return &pod.Spec.Containers[0]
}

// MainStatus is that container's status, nil when there is none yet.
func MainStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	name := Main(pod).Name
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// Need has a container ask for resources, and limits it to them. 0 is what a template says. Memory is in bytes;
// gpuResource is what GPUs are called.
func Need(m *corev1.Container, cpu float64, memory int64, gpus int, gpuResource string) {
	need := corev1.ResourceList{}
	if cpu > 0 {
		need[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Ceil(cpu*1000)), resource.DecimalSI)
	}
	if memory > 0 {
		need[corev1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	}
	if gpus > 0 {
		need[corev1.ResourceName(gpuResource)] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	m.Resources.Requests, m.Resources.Limits = merged(m.Resources.Requests, need), merged(m.Resources.Limits, need)
}

// Restrict takes from a container what a program has no use for whose image's user is not root, as far as nothing else
// is said: what the strictest of the Pod Security Standards asks for,
// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted.
func Restrict(s *corev1.PodSpec, m *corev1.Container) {
	if m.SecurityContext != nil {
		return
	}
	no, yes := false, true
	m.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if of := s.SecurityContext; of == nil || of.RunAsUser == nil && of.RunAsNonRoot == nil {
		m.SecurityContext.RunAsNonRoot = &yes
	}
}

// DefaultMount is where a claim is mounted.
const DefaultMount = config.VolumePath

// volumeName is how much of a claim's name, which may be longer, a volume's has.
const volumeName = 50

// Claim is a PersistentVolumeClaim and where it is mounted.
type Claim = config.Volume

// ParseClaim reads claim, claim:/path or claim:/path:ro.
func ParseClaim(text string) (Claim, error) {
	claim, err := config.ParseClaim(text)
	if err != nil {
		return Claim{}, fmt.Errorf("%q is no claim: it is the name of a PersistentVolumeClaim, name:/path or name:/path:ro, "+
			"where the path is the absolute one that it is mounted at", text)
	}
	return claim, nil
}

// ParseClaims reads claims as FIBER_KUBERNETES_VOLUMES has them.
func ParseClaims(list []string) ([]Claim, error) {
	var claims []Claim
	for _, text := range list {
		c, err := ParseClaim(text)
		if err != nil {
			return nil, err
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// Mount gives a container of a pod its claims, each of which is one volume however often it is mounted. Where something
// is mounted already that stays.
func Mount(s *corev1.PodSpec, m *corev1.Container, claims []Claim) {
	volumes := map[string]string{} // by claim
	for _, v := range s.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes[v.PersistentVolumeClaim.ClaimName] = v.Name
		}
	}
	mounted := map[string]bool{}
	for _, v := range m.VolumeMounts {
		mounted[v.MountPath] = true
	}
	for _, c := range claims {
		if mounted[c.Path] {
			continue
		}
		if volumes[c.Name] == "" {
			name := strings.ReplaceAll(c.Name, ".", "-")
			if len(name) > volumeName {
				name = fmt.Sprintf("%s-%d", name[:volumeName], len(s.Volumes))
			}
			volumes[c.Name] = "fiber-" + name
			s.Volumes = append(s.Volumes, corev1.Volume{Name: volumes[c.Name], VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
		}
		m.VolumeMounts = append(m.VolumeMounts, corev1.VolumeMount{Name: volumes[c.Name], MountPath: c.Path, ReadOnly: c.ReadOnly})
	}
}

// Verbatim keeps the cluster from replacing $(NAME) in texts.
func Verbatim(texts ...string) []string {
	var out []string
	for _, s := range texts {
		out = append(out, strings.ReplaceAll(s, "$", "$$"))
	}
	return out
}

// Setenv sets a variable of a container.
func Setenv(m *corev1.Container, key, value string) {
	m.Env = append(m.Env, corev1.EnvVar{Name: key, Value: Verbatim(value)[0]})
}

// Owner has what is made belong to a pod: the cluster removes it once the pod is gone.
func Owner(pod *corev1.Pod) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
}

var keyName = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// IsKey reports whether a secret lets a key be called so.
func IsKey(name string) bool { return keyName.MatchString(name) }

// merged has what either map has, and of both the second's.
func merged[K comparable, V any](a, b map[K]V) map[K]V {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := map[K]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
