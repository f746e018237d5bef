package kube

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/pid1"
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
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, mainContainer, m.Name)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, LabelManaged, Manager)
	s.RestartPolicy = corev1.RestartPolicyNever
	if !s.HostPID {
		Default(&s.ShareProcessNamespace, new(true)) // the pause container is process 1 instead of the program
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
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == pod.Annotations[mainContainer] })
	return &pod.Spec.Containers[max(i, 0)]
}

// MainStatus returns that container's status, nil if it has none yet.
func MainStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	name := Main(pod).Name
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// Need sets the resources that a container requests and is limited to. 0 leaves the template's. The memory is in bytes;
// gpuResource is the cluster's name for GPUs.
func Need(m *corev1.Container, cpu float64, memory int64, gpus int, gpuResource string) {
	need := func(name corev1.ResourceName, n *resource.Quantity) {
		for _, list := range []*corev1.ResourceList{&m.Resources.Requests, &m.Resources.Limits} {
			Default(list, corev1.ResourceList{})
			(*list)[name] = *n
		}
	}
	if cpu > 0 {
		need(corev1.ResourceCPU, resource.NewMilliQuantity(int64(math.Ceil(cpu*1000)), resource.DecimalSI))
	}
	if memory > 0 {
		need(corev1.ResourceMemory, resource.NewQuantity(memory, resource.BinarySI))
	}
	if gpus > 0 {
		need(corev1.ResourceName(gpuResource), resource.NewQuantity(int64(gpus), resource.DecimalSI))
	}
}

// Restrict removes the privileges of a container whose program does not run as root, unless the container has a security
// context. It sets what the strictest of the Pod Security Standards asks for,
// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted.
func Restrict(s *corev1.PodSpec, m *corev1.Container) {
	if m.SecurityContext != nil {
		return
	}
	m.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if of := s.SecurityContext; of == nil || of.RunAsUser == nil && of.RunAsNonRoot == nil {
		m.SecurityContext.RunAsNonRoot = new(true)
	}
}

// DefaultMount is where a claim is mounted by default.
const DefaultMount = config.VolumePath

// volumeName is how many characters of a claim's name go into the name of its volume, which must be shorter.
const volumeName = 50

// Claim is a PersistentVolumeClaim and where it is mounted.
type Claim = config.Volume

// ParseClaims reads claims of the form claim, claim:/path or claim:/path:ro. Those of the settings have been checked.
func ParseClaims(list []string) ([]Claim, error) {
	var claims []Claim
	for _, text := range list {
		c, err := config.ParseClaim(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a claim: write name, name:/path or name:/path:ro, "+
				"with the name of a PersistentVolumeClaim and the absolute path to mount it at", text)
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

// Joined reports whether the environment of a pod's program asks for the init that joins stdout and stderr in the pod's log. The
// log of another pod must not be taken apart: its program might write the init's marks.
func Joined(pod *corev1.Pod) bool {
	return slices.Contains(Main(pod).Env, corev1.EnvVar{Name: pid1.Key, Value: pid1.Value})
}

// Verbatim returns texts in which the cluster does not replace $(NAME).
func Verbatim(texts ...string) []string {
	var out []string
	for _, s := range texts {
		out = append(out, strings.ReplaceAll(s, "$", "$$"))
	}
	return out
}

// PodNameKey is a variable with the name of a pod whose host name is another, as on the host's network.
const PodNameKey = "POD_NAME"

// Setenv sets a variable of a container.
func Setenv(m *corev1.Container, key, value string) {
	m.Env = append(m.Env, corev1.EnvVar{Name: key, Value: Verbatim(value)[0]})
}

// Owner returns references that make a pod an object's owner: the cluster removes the object once the pod is gone.
func Owner(pod *corev1.Pod) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
}
