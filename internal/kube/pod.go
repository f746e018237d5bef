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

// The labels of the objects that Fiber makes.
const (
	LabelManaged = "app.kubernetes.io/managed-by" // its value is Manager
	Manager      = "fiber"
	LabelRun     = "fiber.run" // the run's id
)

// Managed selects the objects that Fiber has made.
const Managed = LabelManaged + "=" + Manager

const (
	// Container is the name of the container that the program runs in, unless a template names it.
	Container = "fiber"
	// mainContainer is kubectl's annotation with the name of that container: some clusters put their own containers first.
	mainContainer = "kubectl.kubernetes.io/default-container"
)

// NewPod returns a pod that runs one program once, and the program's container in it. The template may be nil.
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
		share := true // then the pause container is process 1 instead of the program
		s.ShareProcessNamespace = &share
	}
	return pod, m
}

// Default sets *what to value if it is zero.
func Default[T any](what *T, value T) {
	if reflect.ValueOf(what).Elem().IsZero() {
		*what = value
	}
}

// Main returns the container of a pod that the program runs in: the one that the pod's annotation names, or else the first.
func Main(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == pod.Annotations[mainContainer] {
			return &pod.Spec.Containers[i]
		}
	}
	return &pod.Spec.Containers[0]
}

// MainStatus returns that container's status, nil if it has none yet.
func MainStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	name := Main(pod).Name
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// Need sets the resources that a container requests and is limited to. 0 leaves the template's. The memory is in bytes;
// gpuResource is the cluster's name for GPUs.
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

// Restrict removes the privileges of a container whose program does not run as root, unless the container has a security
// context. It sets what the strictest of the Pod Security Standards asks for,
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

// DefaultMount is where a claim is mounted by default.
const DefaultMount = config.VolumePath

// volumeName is how many characters of a claim's name go into the name of its volume, which must be shorter.
const volumeName = 50

// Claim is a PersistentVolumeClaim and where it is mounted.
type Claim = config.Volume

// ParseClaim reads claim, claim:/path or claim:/path:ro.
func ParseClaim(text string) (Claim, error) {
	claim, err := config.ParseClaim(text)
	if err != nil {
		return Claim{}, fmt.Errorf("%q is not a claim: write name, name:/path or name:/path:ro, "+
			"with the name of a PersistentVolumeClaim and the absolute path to mount it at", text)
	}
	return claim, nil
}

// ParseClaims reads the claims of FIBER_KUBERNETES_VOLUMES.
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

// Mount mounts claims in a container of a pod. Each claim becomes one volume, however often it is mounted. Where a volume is
// mounted already, it stays.
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

// Verbatim returns texts in which the cluster does not replace $(NAME).
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

// Owner returns references that make a pod an object's owner: the cluster removes the object once the pod is gone.
func Owner(pod *corev1.Pod) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
}

var keyName = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// IsKey reports whether name may be a key of a secret.
func IsKey(name string) bool { return keyName.MatchString(name) }

// merged returns the entries of both maps; for a key in both, the second's.
func merged[K comparable, V any](a, b map[K]V) map[K]V {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := map[K]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
