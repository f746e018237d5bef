// Package submit runs a program on a Kubernetes cluster, from outside of it.
//
// The program becomes a pod. Its output is followed, signals are passed on, and its exit code is the result. While the pod
// waits, the reason is reported. If the pod cannot start, it is removed, and the error is in the cluster's own words.
package submit

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/names"
	"github.com/fiber-go/fiber/internal/runs"
)

// ServiceAccount is the service account that deploy/rbac.yaml creates.
const ServiceAccount = "fiber"

// The labels of the root's pod, and of pods of fiber cp.
const (
	LabelRole    = "fiber.role"    // RoleRoot, or RoleCopy for a pod of fiber cp
	LabelProgram = "fiber.program" // the program's name
	RoleRoot     = "root"
	RoleCopy     = "copy"
)

// Job is a program to put on a cluster.
type Job struct {
	Name        string // of the pod; "" derives one from Program
	Program     string // the program's name
	Image       string
	Command     []string // in place of the image's entrypoint, unless empty
	Args        []string
	Env         []string // KEY=value
	CPU         float64  // 0 is no limit
	Memory      int64    // bytes; 0 is no limit
	GPU         int
	GPUResource string // the cluster's name for GPUs
	Claims      []kube.Claim
	Template    *corev1.Pod // supplies what the other fields do not; nil for none
	Restricted  bool        // its image's user is not root, and it needs no privileges
	Joined      bool        // the program marks stderr in its log, if it uses Fiber
	Arch        string      // of the nodes that can run it, in Go's words; "" is any
	Role        string      // "" is RoleRoot
	User        string      // uid:gid that it runs as; "" is the image's
	Group       int64       // the group that its claims belong to; 0 leaves them as they are
	Restarts    int         // how often the cluster starts it again when its pod dies
}

// NewJob returns the job that the settings describe for a program, with the portable part of this process's environment.
func NewJob(c *kube.Client, cfg config.Config, program string) (Job, error) {
	claims, _ := kube.ParseClaims(cfg.KubernetesVolumes) // already checked
	template, err := c.Template(cfg.PodTemplate)
	env, _ := config.Portable(os.Environ(), cfg.Env)
	return Job{
		Program: program, Env: env, Claims: claims, Template: template,
		CPU: cfg.RootCPU, Memory: int64(cfg.RootMemory), GPU: cfg.RootGPU, GPUResource: cfg.KubernetesGPUResource,
	}, err
}

// Check finds errors that the cluster would report less clearly, before anything is done for the job.
func (j Job) Check() error {
	if j.CPU < 0 || j.Memory < 0 || j.GPU < 0 {
		return errors.New("the CPU, memory and GPUs of a program can't be negative")
	}
	if j.Name != "" && len(validation.IsDNS1123Label(j.Name)) > 0 {
		return fmt.Errorf("%q can't be the name of a pod: use at most 63 lower-case letters, digits and -, with no - at either end", j.Name)
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

// Pod returns the pod that the job becomes, and the secret with its environment, nil for none, which the pod has to own.
func (j Job) Pod() (*corev1.Pod, *corev1.Secret) {
	pod, m := kube.NewPod(j.Template)
	pod.Name = cmp.Or(j.Name, names.Unique(j.Program, 6)) // short, since people type it
	role := cmp.Or(j.Role, RoleRoot)
	pod.Labels[LabelRole], pod.Labels[LabelProgram] = role, names.Program(j.Program)
	m.Image, m.Command, m.Args = j.Image, kube.Verbatim(j.Command...), kube.Verbatim(j.Args...)
	secret := j.environment(pod, m)
	kube.Need(m, j.CPU, j.Memory, j.GPU, j.GPUResource)
	s := &pod.Spec
	if j.Arch != "" {
		kube.Default(&s.NodeSelector, map[string]string{})
		s.NodeSelector[corev1.LabelArchStable], s.NodeSelector[corev1.LabelOSStable] = j.Arch, "linux"
	}
	if s.HostNetwork || s.Hostname != "" {
		kube.Setenv(m, kube.PodNameKey, pod.Name)
	}
	if j.Joined && !s.HostNetwork { // there others of the node could ask, too
		kube.Setenv(m, runs.PortKey, strconv.Itoa(firstPort+ports+rand.IntN(statusPorts)))
	}
	if role == RoleRoot {
		j.announceMetrics(pod, m)
	}
	if role == RoleCopy {
		s.AutomountServiceAccountToken = new(false)
	}
	kube.Default(&s.SecurityContext, j.security())
	if j.Restricted {
		kube.Restrict(s, m)
	}
	kube.Mount(s, m, j.Claims)
	if j.Joined && j.Template != nil {
		kube.PassOn(pod, j.Template)
	}
	return pod, secret
}

// announceMetrics has a Prometheus of the cluster find what the program serves, if that is not for its pod alone: by a port's name, and by the
// annotations that many are told to look for.
func (j Job) announceMetrics(pod *corev1.Pod, m *corev1.Container) {
	address := ""
	for _, kv := range j.Env { // the last one counts
		if value, is := strings.CutPrefix(kv, "FIBER_METRICS="); is {
			address = value
		}
	}
	host, text, _ := net.SplitHostPort(address)
	port, _ := strconv.ParseInt(text, 10, 32)
	if ip := net.ParseIP(host); port == 0 || host == "localhost" || ip != nil && ip.IsLoopback() {
		return
	}
	if !slices.ContainsFunc(m.Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" || p.ContainerPort == int32(port) }) {
		m.Ports = append(m.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: int32(port)})
	}
	for key, value := range map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": text, "prometheus.io/path": "/metrics"} {
		if _, given := pod.Annotations[key]; !given {
			pod.Annotations[key] = value
		}
	}
}

func (j Job) security() *corev1.PodSecurityContext {
	var s corev1.PodSecurityContext
	var uid, gid int64
	if n, _ := fmt.Sscanf(j.User, "%d:%d", &uid, &gid); n == 2 {
		s.RunAsUser, s.RunAsGroup, s.RunAsNonRoot = &uid, &gid, new(uid != 0)
	}
	if j.Group != 0 && len(j.Claims) > 0 {
		s.FSGroup, s.FSGroupChangePolicy = &j.Group, new(corev1.FSGroupChangeOnRootMismatch)
	}
	return &s
}
