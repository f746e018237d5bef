package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/internal/owner"
)

// ground is what the processes run on: a backend, with the commands that look at it and kill.
type ground struct {
	name    string
	list    []string            // prints the ids and names of the processes
	things  map[string][]string // print what exists, line by line
	details []string            // prints all that is known of the processes, for a hang
	ways    []way
	opening []string
	ready   []string // succeeds once the ground can be used
	rights  []string // gives the root's pod the permissions that it needs
	closing []string
}

// A way is a command that kills the process whose id is its last argument.
type way struct {
	name    string
	command []string
}

// A victim is a process that may be killed.
type victim struct{ id, name string }

func (v victim) kind() string {
	kind, _, _ := strings.Cut(v.name, "-")
	return kind
}

// newGround must be called before Fiber reads the environment, which newGround changes for a cluster.
func newGround() (*ground, error) {
	g := &ground{name: cmp.Or(os.Getenv("FIBER_BACKEND"), "local")}
	switch g.name {
	case "local":
		kill, term := way{"killed", []string{"kill", "-KILL"}}, way{"told to end", []string{"kill", "-TERM"}}
		g.ways = []way{kill, kill, term, {"stopped", []string{"kill", "-STOP"}}}
	case "docker":
		mine := []string{"docker", "ps", "--no-trunc", "--filter", "label=fiber.root=" + owner.Name(), "--format"}
		g.list = append(slices.Clone(mine), `{{.ID}} {{.Label "fiber.name"}}`)
		g.details = append(mine, "table {{.ID}} {{.Names}} {{.Status}}", "-a")
		g.things = map[string][]string{"containers": append(mine, `{{.ID}}`, "-a")}
		kill, term := way{"killed", []string{"docker", "kill"}}, way{"told to end", []string{"docker", "kill", "-s", "TERM"}}
		g.ways = []way{kill, kill, term, {"paused", []string{"docker", "pause"}}}
	case "kubernetes":
		if !inPod() { // where nothing can look
			g.onCluster()
		}
	default:
		return nil, fmt.Errorf("FIBER_BACKEND=%s: unknown backend", g.name)
	}
	return g, nil
}

// inPod says whether this process is in a pod of a cluster.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// onCluster makes Fiber find the cluster that test/cluster/with.sh names, stay outside of it, and use a namespace of its
// own for this run.
func (g *ground) onCluster() {
	for from, to := range map[string]string{"FIBER_TEST_KUBECONFIG": "KUBECONFIG", "FIBER_TEST_HOST": "FIBER_HOST", "FIBER_TEST_REGISTRY": "FIBER_REGISTRY"} {
		if value := os.Getenv(from); value != "" {
			os.Setenv(to, value)
		}
	}
	// A node that dies as it starts a container leaves the pod waiting for good. The soak must see the next try.
	os.Setenv("FIBER_START_TIMEOUT", (settles - time.Minute).String())
	namespace := "fiber-soak-" + strings.ToLower(rand.Text()[:8])
	os.Setenv("FIBER_KUBERNETES_NAMESPACE", namespace)
	kubectl := func(args ...string) []string {
		return append([]string{"kubectl", "-n", namespace, "--request-timeout=10s"}, args...)
	}
	g.list = kubectl("get", "pods", "--no-headers", "-l", "fiber.name", "--field-selector=status.phase=Running", "-o", `custom-columns=a:.metadata.name,b:.metadata.labels.fiber\.name`)
	g.details = kubectl("get", "pods", "-o", "wide")
	g.things = map[string][]string{"pods": kubectl("get", "pods", "-o", "name"), "secrets": kubectl("get", "secrets", "-o", "name")}
	g.ways = []way{{"pods deleted", kubectl("delete", "--wait=false", "pod")}, {"pods struck", kubectl("delete", "--grace-period=0", "--force", "pod")}}
	g.opening, g.ready = kubectl("create", "namespace", namespace), kubectl("get", "serviceaccount", "default")
	g.rights = kubectl("apply", "-f", "deploy/rbac.yaml")
	g.closing = kubectl("delete", "--wait=false", "namespace", namespace)
}

// lines runs a command and returns the lines that it prints. What it leaves running, such as a node, does not belong to
// this run.
func lines(ctx context.Context, command []string) ([]string, error) {
	if len(command) == 0 {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, markKey+"=") })
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%v: %w: %s", command, err, exit.Stderr)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), err
}

func (g *ground) open(ctx context.Context) error {
	if _, err := lines(ctx, g.opening); err != nil {
		return err
	}
	for {
		_, err := lines(ctx, g.ready)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// victims returns the processes that can be killed. On this machine they are this process's children and grandchildren.
func (g *ground) victims(ctx context.Context) (all []victim) {
	listed, _ := lines(ctx, g.list)
	for _, line := range listed {
		if fields := strings.Fields(line); len(fields) == 2 {
			all = append(all, victim{fields[0], fields[1]})
		}
	}
	if g.list != nil {
		return all
	}
	var children []string
	for _, p := range fiber.ActiveChildren() {
		all = append(all, victim{p.ID(), p.Name()})
		children = append(children, p.ID())
	}
	for _, pid := range descendants() {
		if slices.Contains(children, strconv.Itoa(int(status(pid, "PPid")))) {
			all = append(all, victim{strconv.Itoa(pid), nestedKind})
		}
	}
	return all
}

// rootKind is the kind of this process.
const rootKind = "root"

// root returns this process, unless it is the pod's part.
func (g *ground) root() []victim {
	return []victim{{strconv.Itoa(os.Getpid()), rootKind}}
}

// lull stops a process for a while, or until stop is closed.
func (g *ground) lull(ctx context.Context, v victim, long time.Duration, stop <-chan struct{}) {
	if v.name == rootKind { // another one has to do it
		lines(ctx, []string{"sh", "-c", fmt.Sprintf("kill -STOP %s; sleep %.1f; kill -CONT %s", v.id, long.Seconds(), v.id)})
		return
	}
	halt, resume := []string{"kill", "-STOP", v.id}, []string{"kill", "-CONT", v.id}
	switch g.name {
	case "docker":
		halt, resume = []string{"docker", "pause", v.id}, []string{"docker", "unpause", v.id}
	case "kubernetes": // no pod can be stopped, but its processes if they are on this machine
		halt, resume = halt[:2], resume[:2]
		for _, pid := range descendants() {
			if bytes.Contains(procfile(pid, "environ"), []byte("HOSTNAME="+v.id+"\x00")) {
				halt, resume = append(halt, strconv.Itoa(pid)), append(resume, strconv.Itoa(pid))
			}
		}
		if len(halt) == 2 {
			return
		}
	}
	lines(ctx, halt)
	select {
	case <-time.After(long):
	case <-stop:
	}
	lines(ctx, resume)
}

// left returns what exists besides processes, by kind.
func (g *ground) left(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	var errs []error
	for name, command := range g.things {
		there, err := lines(ctx, command)
		all[name], errs = there, append(errs, err)
	}
	return all, errors.Join(errs...)
}

// gone returns an error if something is left. It waits, until ctx ends, for what is removed after a process's end.
func (g *ground) gone(ctx context.Context) error {
	for {
		left, err := g.left(ctx)
		for _, pid := range descendants() {
			left["processes"] = append(left["processes"], fmt.Sprintf("%d %q", pid, procfile(pid, "cmdline")))
		}
		n := 0
		for _, things := range left {
			n += len(things)
		}
		if n == 0 && err == nil {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("left behind: %v", left), err)
		}
	}
}

func (g *ground) close() error {
	_, err := lines(context.Background(), g.closing)
	return err
}
