package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fiber-go/fiber/backend/docker"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
)

type doctorCommand struct {
	where
}

// doctor is one run of all checks.
type doctor struct {
	cfg    config.Config
	failed int
}

// answerTime bounds each request.
const answerTime = 15 * time.Second

func (d *doctor) good(what, format string, args ...any) { d.say("ok  ", what, format, args) }
func (d *doctor) note(what, format string, args ...any) { d.say("note", what, format, args) }
func (d *doctor) bad(what, format string, args ...any) {
	d.failed++
	d.say("BAD ", what, format, args)
}
func (d *doctor) say(mark, what, format string, args []any) {
	fmt.Printf("%s  %-12s %s\n", mark, what, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

func (c *doctorCommand) Run() error {
	d := new(doctor)
	d.good("fiber", "%s, %s/%s", version(), runtime.GOOS, runtime.GOARCH)
	cfg, err := settings(config.Config{})
	if err != nil {
		d.bad("settings", "%v", err)
	}
	d.cfg = cfg.WithDefaults()
	for _, key := range slices.Sorted(maps.Keys(cfg.Settings)) {
		d.note("settings", "%s = %s, which a backend in your program checks", key, cfg.Settings[key])
	}
	d.compiler()
	d.docker()
	d.cluster(c.Namespace)
	d.registry()
	d.environment()
	if d.failed > 0 {
		return fmt.Errorf("%d of these do not work", d.failed)
	}
	return nil
}

// compiler looks for the go command.
func (d *doctor) compiler() {
	out, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		d.note("go", "the go command is not in PATH: fiber run can run commands in images, but no packages (https://go.dev/dl)")
		return
	}
	d.good("go", "%s", out)
}

// docker looks for an engine, which only some commands need.
func (d *doctor) docker() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	engine, err := docker.Engine(ctx)
	if err != nil {
		d.note("docker", "%v (only --backend docker and --build need one)", err)
		return
	}
	d.good("docker", "engine %s", engine)
}

func (d *doctor) cluster(namespace string) {
	c, err := connect(namespace)
	if err != nil {
		d.bad("cluster", "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*answerTime)
	defer cancel()
	var v struct{ GitVersion string }
	text, err := c.REST.Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		d.bad("cluster", "%v", c.Explain(err, "get", "/version"))
		return
	}
	d.good("cluster", "%s, Kubernetes %s", c.Config.Host, v.GitVersion)
	if !d.namespace(ctx, c) {
		return
	}
	d.permissions(ctx, c)
	d.account(ctx, c)
	d.nodes(ctx, c)
}

func (d *doctor) namespace(ctx context.Context, c *kube.Client) bool {
	_, pods := c.Pods(ctx, kube.Managed, false)
	if apierrors.IsUnauthorized(pods) {
		d.bad("credentials", "%v", pods)
		return false
	}
	if err := c.Missing(ctx); err != nil {
		d.bad("namespace", "%v; -n names another one", err)
		return false
	}
	if pods != nil && !apierrors.IsForbidden(pods) { // permissions reports what is forbidden
		d.bad("namespace", "%v", pods)
		return false
	}
	d.good("namespace", "%s", c.Namespace)
	return true
}

// permission is a permission that the user may need.
type permission struct {
	verb, resource string
	why            string // what needs it; "" if everything does
}

const restarts = "for fiber run --restart"

var permissions = []permission{
	{"create", "pods", ""}, {"get", "pods", ""}, {"list", "pods", ""}, {"watch", "pods", ""}, {"delete", "pods", ""},
	{"deletecollection", "pods", "with FIBER_HOST, when the root stays on this machine"},
	{"get", "pods/log", ""},
	{"create", "secrets", "with FIBER_HOST, when the root stays on this machine"},
	{"delete", "secrets", "with FIBER_HOST, and for fiber clean"},
	{"create", "pods/portforward", "to follow a program that writes faster than its pod's log is read"},
	{"create", "pods/exec", "for fiber cp"},
	{"get", "persistentvolumeclaims", "to report at once that a claim is missing, and for fiber run --restart"},
	{"create", "jobs", restarts}, {"get", "jobs", restarts}, {"list", "jobs", restarts}, {"delete", "jobs", restarts},
	{"create", "leases", restarts}, {"get", "leases", restarts},
	{"list", "events", "to report why a pod waits"},
	{"list", "nodes", "to build for the nodes' architecture, and to report the largest node"},
}

func (d *doctor) permissions(ctx context.Context, c *kube.Client) {
	var missing []string
	for _, p := range permissions {
		yes, err := c.Allowed(ctx, p.verb, p.resource)
		switch {
		case err != nil:
			d.bad("permissions", "%v", err)
			return
		case yes:
		case p.why == "":
			missing = append(missing, p.verb+" "+p.resource)
		default:
			d.note("permissions", "may not %s %s, which is needed %s", p.verb, p.resource, p.why)
		}
	}
	if len(missing) > 0 {
		d.bad("permissions", "may not %s in the namespace %s: kubectl apply -n %[2]s -f %s grants that to a service account, and an administrator can grant it to you",
			strings.Join(missing, ", "), c.Namespace, kube.RBAC)
		return
	}
	d.good("permissions", "pods and their logs in %s", c.Namespace)
}

func (d *doctor) account(ctx context.Context, c *kube.Client) {
	_, err := c.ServiceAccount(ctx, submit.ServiceAccount)
	switch {
	case err == nil:
		d.good("account", "programs start pods with the service account %s", submit.ServiceAccount)
	case apierrors.IsNotFound(err):
		d.note("account", "there is no service account %s: programs run as the namespace's default, which usually may not start pods; kubectl apply -n %s -f %s makes it",
			submit.ServiceAccount, c.Namespace, kube.RBAC)
	default:
		d.note("account", "%v", err)
	}
}

func (d *doctor) nodes(ctx context.Context, c *kube.Client) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return // permissions has reported that
	}
	count, gpus := kube.Architectures(nodes), int64(0)
	var words []string
	for arch, n := range count {
		words = append(words, fmt.Sprintf("%d linux/%s", n, arch))
	}
	slices.Sort(words)
	for _, n := range nodes {
		q := n.Status.Allocatable[corev1.ResourceName(d.cfg.KubernetesGPUResource)]
		gpus += q.Value()
	}
	if len(words) == 0 {
		d.bad("nodes", "no node accepts pods")
		return
	}
	d.good("nodes", "%s; %d GPUs", strings.Join(words, ", "), gpus)
}

func (d *doctor) registry() {
	answered := make(chan error, 1)
	go func() { answered <- image.CheckRegistry(d.cfg) }()
	var err error
	select {
	case err = <-answered:
	case <-time.After(answerTime):
		err = fmt.Errorf("no answer for %v", answerTime)
	}
	switch {
	case err == nil:
		d.good("registry", "%s accepts images", d.cfg.Registry)
	case errors.Is(err, image.ErrNoRegistry):
		d.bad("registry", "%v", err)
	default:
		d.bad("registry", "%s: %v", d.cfg.Registry, err)
	}
}

// environment lists the variables that stay on this machine.
func (d *doctor) environment() {
	_, stays := config.Portable(os.Environ(), d.cfg.Env)
	if len(stays) == 0 {
		d.good("environment", "containers and pods get all variables that do not describe this machine")
		return
	}
	d.note("environment", "to containers and pods go only Fiber's variables, those that mean the same everywhere and those that FIBER_ENV names; here stay %s",
		strings.Join(stays, ", "))
}
