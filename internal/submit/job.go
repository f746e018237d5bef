// Package submit puts a program on a Kubernetes cluster, from outside of it.
//
// The program becomes a pod. Its output is followed, signals are passed on, and its exit code is the result. What it
// waits for is told while it waits, and where nothing can become of it the pod is removed, with the cluster's own
// words as the error.
package submit

import (
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fiber-go/fiber/internal/pid1"
)

const (
	// Container is the name of the container that the program runs in.
	Container = "fiber"
	// DefaultMount is where a claim is mounted.
	DefaultMount = "/persistent"
	// ServiceAccount is the one that deploy/rbac.yaml makes.
	ServiceAccount = "fiber"
	// GPUResource is what GPUs are called.
	GPUResource = "nvidia.com/gpu"
)

// The labels of a master's pod.
const (
	LabelManaged = "app.kubernetes.io/managed-by" // fiber, as on its children's
	LabelRole    = "fiber.role"                   // RoleMaster, or RoleCopy for a pod of fiber cp
	LabelProgram = "fiber.program"                // the program's name
	RoleMaster   = "master"
	RoleCopy     = "copy"
)

// Claim is a PersistentVolumeClaim and where it is mounted.
type Claim struct {
	Name, Path string
	ReadOnly   bool
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

// ParseClaim reads claim, claim:/path or claim:/path:ro.
func ParseClaim(text string) (Claim, error) {
	name, where, given := strings.Cut(text, ":")
	if !given {
		where = DefaultMount
	}
	where, readOnly := strings.CutSuffix(where, ":ro")
	if !claimName.MatchString(name) {
		return Claim{}, fmt.Errorf("%q is no claim: it is the name of a PersistentVolumeClaim, or name:/path", text)
	}
	if !path.IsAbs(where) || path.Clean(where) == "/" || strings.Contains(where, ":") {
		return Claim{}, fmt.Errorf("%q is no claim: what follows the colon is the absolute path that it is mounted at", text)
	}
	return Claim{name, path.Clean(where), readOnly}, nil
}

// Job is a program to put on a cluster.
type Job struct {
	Name        string // of the pod; "" makes one of Program
	Program     string // what it is called
	Image       string
	Command     []string // in place of the image's entrypoint, unless empty
	Args        []string
	Env         []string // KEY=value
	CPU         float64  // 0 is no limit
	Memory      int64    // bytes; 0 is no limit
	GPU         int
	GPUResource string // "" is nvidia.com/gpu
	Claims      []Claim
	Template    *corev1.Pod // says what nothing else here does; nil for none
	Joined      bool        // the program says in its log what is stderr, where it knows how
	Arch        string      // of the nodes that can run it, in Go's words; "" is any
	Role        string      // "" is master
	User        string      // uid:gid that it runs as; "" is the image's
	Group       int64       // that its claims are given to; 0 is nobody
}

var (
	claimName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	podName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	notAName  = regexp.MustCompile(`[^a-z0-9]+`)
)

// check finds what the cluster would refuse in words that say less.
func (j Job) check() error {
	if j.Name != "" && (!podName.MatchString(j.Name) || len(j.Name) > 63) {
		return fmt.Errorf("%q can't be the name of a pod: it has lower-case letters, digits and - between them, 63 at most", j.Name)
	}
	taken := map[string]bool{}
	for _, c := range j.Claims {
		if taken[c.Path] {
			return fmt.Errorf("two claims are mounted at %s", c.Path)
		}
		taken[c.Path] = true
	}
	return nil
}

// Title makes of any name one that a pod or a label may have.
func Title(name string) string {
	name = notAName.ReplaceAllString(strings.ToLower(name), "-")
	if len(name) > 40 {
		name = name[:40]
	}
	if name = strings.Trim(name, "-"); name == "" {
		return "program"
	}
	return name
}

// Pod is the pod that the job becomes.
func (j Job) Pod() *corev1.Pod {
	name := j.Name
	if name == "" {
		name = "fiber-" + Title(j.Program) + "-" + strings.ToLower(rand.Text()[:6])
	}
	role := j.Role
	if role == "" {
		role = RoleMaster
	}
	pod := &corev1.Pod{}
	if j.Template != nil {
		pod = j.Template.DeepCopy()
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Name, pod.GenerateName = name, ""
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, map[string]string{LabelManaged: "fiber", LabelRole: role, LabelProgram: Title(j.Program)})
	if len(pod.Spec.Containers) == 0 {
		pod.Spec.Containers = []corev1.Container{{}}
	}
	s := &pod.Spec
	s.RestartPolicy = corev1.RestartPolicyNever
	if s.ShareProcessNamespace == nil && !s.HostPID {
		share := true // the pause container is process 1, and not the program
		s.ShareProcessNamespace = &share
	}
	m := &s.Containers[0]
	if m.Name == "" {
		m.Name = Container
	}
	m.Image, m.Command, m.Args = j.Image, escaped(j.Command), escaped(j.Args)
	m.Env = append(m.Env, j.env()...)
	j.resources(&m.Resources)
	if j.Arch != "" {
		s.NodeSelector = joinMaps(s.NodeSelector, map[string]string{corev1.LabelArchStable: j.Arch, corev1.LabelOSStable: "linux"})
	}
	if role == RoleCopy {
		no := false
		s.AutomountServiceAccountToken = &no
	}
	if s.SecurityContext == nil {
		s.SecurityContext = j.security()
	}
	j.mount(&pod.Spec)
	return pod
}

func (j Job) security() *corev1.PodSecurityContext {
	var s corev1.PodSecurityContext
	var uid, gid int64
	if n, _ := fmt.Sscanf(j.User, "%d:%d", &uid, &gid); n == 2 {
		s.RunAsUser, s.RunAsGroup = &uid, &gid
	}
	if j.Group != 0 && len(j.Claims) > 0 {
		change := corev1.FSGroupChangeOnRootMismatch
		s.FSGroup, s.FSGroupChangePolicy = &j.Group, &change
	}
	return &s
}

func (j Job) env() []corev1.EnvVar {
	var env []corev1.EnvVar
	if j.Joined {
		for key, value := range pid1.Joined() {
			env = append(env, corev1.EnvVar{Name: key, Value: value})
		}
	}
	for _, kv := range j.Env {
		key, value, _ := strings.Cut(kv, "=")
		env = append(env, corev1.EnvVar{Name: key, Value: escape(value)})
	}
	return env
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

func (j Job) resources(r *corev1.ResourceRequirements) {
	list := corev1.ResourceList{}
	if j.CPU > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(math.Ceil(j.CPU*1000)), resource.DecimalSI)
	}
	if j.Memory > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(j.Memory, resource.BinarySI)
	}
	if j.GPU > 0 {
		name := j.GPUResource
		if name == "" {
			name = GPUResource
		}
		list[corev1.ResourceName(name)] = *resource.NewQuantity(int64(j.GPU), resource.DecimalSI)
	}
	r.Requests, r.Limits = joinMaps(r.Requests, list), joinMaps(r.Limits, list)
}

func joinMaps[K comparable, V any](a, b map[K]V) map[K]V {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := maps.Clone(b)
	for k, v := range a {
		if _, ok := all[k]; !ok {
			all[k] = v
		}
	}
	return all
}

// mount gives the container its claims, each of which is one volume however often it is mounted.
func (j Job) mount(spec *corev1.PodSpec) {
	volumes := map[string]string{}
	for _, c := range j.Claims {
		name, ok := volumes[c.Name]
		if !ok {
			name = fmt.Sprintf("claim-%d", len(volumes))
			volumes[c.Name] = name
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
		}
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: c.Path, ReadOnly: c.ReadOnly})
	}
}

// DefaultStartTimeout bounds the wait for a pod's start.
const DefaultStartTimeout = 10 * time.Minute
