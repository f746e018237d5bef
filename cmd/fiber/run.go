package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fiber-go/fiber/backend"
	"github.com/fiber-go/fiber/internal/config"
	"github.com/fiber-go/fiber/internal/container/image"
	"github.com/fiber-go/fiber/internal/kube"
	"github.com/fiber-go/fiber/internal/kube/submit"
	"github.com/fiber-go/fiber/internal/stdio"
)

type runCommand struct {
	Attach    *bool    `short:"a" negatable:"" help:"Follow the output, and exit with the program's exit code. The default on a terminal."`
	Image     string   `placeholder:"IMAGE" help:"The image that contains the command."`
	Build     string   `placeholder:"DOCKERFILE" help:"Build the image that contains the command, with docker."`
	CPU       float64  `name:"cpu" placeholder:"N" help:"CPUs, such as 2 or 0.5."`
	Memory    string   `placeholder:"SIZE" help:"Memory, such as 512MiB or 4GiB; a number alone is MiB."`
	GPU       int      `name:"gpu" placeholder:"N" help:"GPUs."`
	Volume    []string `short:"v" sep:"none" placeholder:"CLAIM[:PATH]" help:"Mount a PersistentVolumeClaim, at /persistent unless a path is given."`
	Env       []string `short:"e" sep:"none" placeholder:"K=V" help:"Set a variable; K alone takes its value from this shell."`
	Namespace string   `short:"n" placeholder:"NAME" help:"The namespace."`
	Backend   string   `placeholder:"NAME" help:"Where to run it: kubernetes, local, docker, or a backend that the package imports."`
	Name      string   `placeholder:"NAME" help:"The pod's name."`
	Restart   *int     `placeholder:"N" help:"Have the cluster start the program again, up to N times, when its pod or node dies. Needs a claim that several nodes may mount."`
	Dashboard bool     `help:"Have the program serve a page of its run, for fiber dashboard. The package need not import it."`
	Keep      bool     `help:"Keep the pod after the program has ended."`
	Args      []string `arg:"" optional:"" passthrough:"partial" name:"package|command" help:"A Go package or file, or a command; all that follows are its arguments."`
}

// plan is a checked command line.
type plan struct {
	runCommand
	settings config.Config // including the flags
	env      []string
	source   source
	args     []string // of the program, after the package's name
	dir      string   // for what is not needed afterwards
	report   *submit.Report
	signals  chan os.Signal // handled from before dir is made
}

func (c *runCommand) Run() error {
	cfg, err := settings(config.Config{Backend: c.Backend})
	if err != nil {
		return err
	}
	p, err := c.plan(cfg)
	if err != nil {
		return misuse{err}
	}
	if p.source.kind != inImage || p.settings.Backend == "docker" {
		if p.dir, err = temporaryFolder(); err != nil {
			return err
		}
		defer os.RemoveAll(p.dir)
	}
	switch p.settings.Backend {
	case "local":
		return p.local()
	case "docker":
		return p.docker()
	case kube.Name, "":
		return p.cluster()
	}
	return p.packageHere(p.settings.Backend)
}

func (c *runCommand) plan(cfg config.Config) (p *plan, err error) {
	if c.CPU < 0 || c.GPU < 0 {
		return nil, errors.New("--cpu and --gpu can't be negative")
	}
	if !away(cfg) { // these settings are for programs on a cluster
		cfg.RootCPU, cfg.RootMemory, cfg.RootGPU, cfg.KubernetesVolumes = 0, 0, 0, nil
	}
	size, err := memory(c.Memory)
	if err != nil {
		return nil, err
	}
	if _, err := kube.ParseClaims(c.Volume); err != nil {
		return nil, fmt.Errorf("--volume: %w", err)
	}
	if len(c.Volume) > 0 {
		cfg.KubernetesVolumes = c.Volume
	}
	cfg.RootCPU, cfg.RootMemory = cmp.Or(c.CPU, cfg.RootCPU), cmp.Or(size, cfg.RootMemory)
	cfg.RootGPU, cfg.KubernetesNamespace = cmp.Or(c.GPU, cfg.RootGPU), cmp.Or(c.Namespace, cfg.KubernetesNamespace)
	p = &plan{runCommand: *c, settings: cfg, report: submit.NewReport(os.Stderr), signals: submit.Signals()}
	for _, kv := range c.Env {
		key, _, given := strings.Cut(kv, "=")
		if key == "" {
			return nil, fmt.Errorf("--env: %q does not name a variable", kv)
		}
		if !given {
			value, ok := os.LookupEnv(key)
			if !ok {
				return nil, fmt.Errorf("--env: %s is not set here: use %[1]s=VALUE", key)
			}
			kv = key + "=" + value
		}
		p.env = append(p.env, kv)
		p.settings.Env = append(p.settings.Env, key) // for the processes that it starts
	}
	if c.Dashboard {
		p.settings.Dashboard = cmp.Or(p.settings.Dashboard, "127.0.0.1:0")
	}
	if p.source, p.args, err = c.find(cfg.Backend); err != nil {
		return nil, err
	}
	return p, p.check()
}

// away reports whether programs run on a cluster.
func away(cfg config.Config) bool { return cmp.Or(cfg.Backend, kube.Name) == kube.Name }

// check rejects flags that only apply to a pod or a container.
func (p *plan) check() error {
	here := p.settings.Backend == "local" || !away(p.settings) && p.source.kind == goPackage
	switch _, known := backend.Named(p.settings.Backend); {
	case !known && p.source.kind != goPackage:
		return fmt.Errorf("--backend %s: only a Go package can have that one; a command runs on kubernetes, local or docker", p.settings.Backend)
	case here && len(p.Volume) > 0:
		return errors.New("--volume is for a pod, or a command in a container: a program on this machine has its files, and FIBER_DOCKER_VOLUMES mounts them in its containers")
	case here && p.GPU > 0:
		return errors.New("--gpu is for a pod, or a command in a container: a program on this machine has its GPUs")
	case p.settings.Backend == "local" && p.source.kind != goPackage && p.source.what != "":
		return errors.New("--image and --build are for a cluster or for docker: on this machine a command needs none")
	}
	if p.Dashboard && p.source.kind != goPackage {
		return errors.New("--dashboard is for a Go package that uses Fiber: a command's program imports github.com/fiber-go/fiber/dashboard, and has FIBER_DASHBOARD")
	}
	return p.checkRestart()
}

// checkRestart rejects a --restart of what the cluster can't start again, or what could not be kept from running twice.
func (p *plan) checkRestart() error {
	switch {
	case p.Restart == nil:
		return nil
	case *p.Restart < 1:
		return fmt.Errorf("--restart %d: it must be at least 1", *p.Restart)
	case !away(p.settings):
		return fmt.Errorf("--restart is for a cluster, which starts the program again: on this machine, with --backend %s, nothing does", p.settings.Backend)
	case p.source.kind != goPackage:
		return errors.New("--restart is for a Go package that uses Fiber: of other programs, two could run at a time when a node is cut off")
	}
	return nil
}

// memory reads a size; a number alone is MiB, as in meta.Memory.
func memory(text string) (config.ByteSize, error) {
	if text == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return config.ByteSize(n) * config.MiB, nil
	}
	size, err := config.ParseByteSize(text)
	if err != nil || size <= 0 {
		return 0, fmt.Errorf("--memory: %q is not a size: write 512MiB or 4GiB, or a number of MiB", text)
	}
	return size, nil
}

// cluster runs the plan on the cluster.
func (p *plan) cluster() error {
	client, err := kube.Connect(p.settings.KubernetesNamespace)
	if err != nil {
		return err
	}
	job, err := submit.NewJob(client, p.settings, p.source.name)
	if err != nil {
		return err
	}
	job.Name, job.Env = p.Name, append(job.Env, p.env...)
	if p.Restart != nil {
		job.Restarts = *p.Restart
	}
	if err := job.Check(); err != nil {
		return misuse{err}
	}
	attach := term.IsTerminal(int(os.Stdout.Fd()))
	if p.Attach != nil {
		attach = *p.Attach
	}
	run := &submit.Run{Client: client, Report: p.report, StartTimeout: p.settings.StartTimeout, Stdout: stdio.Stdout, Stderr: stdio.Stderr, Detach: !attach, Keep: p.Keep, Returned: submit.Returned(p.settings)}
	code, err := run.Do(p.signals, &job, func(ctx context.Context) error { return p.prepare(ctx, client, &job) })
	if err != nil {
		p.report.Say("fiber: %v", err)
	}
	if code != 0 {
		return status(code)
	}
	return nil
}

// slowBuild is when a build is reported even if no terminal shows it.
const slowBuild = 5 * time.Second

// prepare makes the job's image, or finds it.
func (p *plan) prepare(ctx context.Context, client *kube.Client, job *submit.Job) error {
	if job.Restarts > 0 {
		if err := job.CheckRestarts(ctx, client); err != nil {
			return err
		}
	}
	if p.source.kind == inImage {
		job.Command, job.Image = p.args, p.source.what
		return nil
	}
	cfg := p.settings
	if cfg.Registry == "" {
		return image.ErrNoRegistry
	}
	most, _, err := client.Platform(ctx)
	if err != nil {
		return err
	}
	on := image.Platform{OS: "linux", Arch: cmp.Or(most, "amd64")}
	job.Arch = on.Arch
	if p.source.kind == dockerfile {
		id, err := p.build(ctx, on.String())
		if err != nil {
			return err
		}
		job.Command = p.args
		job.Image, err = p.push(ctx, id)
		return err
	}
	building := fmt.Sprintf("building %s for %s", p.source.what, on)
	p.report.Passing("%s", building)
	slow := time.AfterFunc(slowBuild, func() { p.report.Status("%s", building) })
	cfg.Executable, err = p.compile(ctx, []string{"GOOS=linux", "GOARCH=" + on.Arch, "CGO_ENABLED=0"})
	slow.Stop()
	p.report.Clear()
	if err == nil && job.Restarts > 0 && !usesFiber(cfg.Executable) {
		err = fmt.Errorf("--restart: %s does not use Fiber with its backend kubernetes: two of it could run at a time when a node is cut off", p.source.what)
	}
	if err != nil {
		return err
	}
	job.Args, job.Group, job.Joined, job.Restricted = p.args, submit.Group, true, cfg.BaseImage == ""
	job.Env = append(submit.Settings(cfg), job.Env...)
	job.Image, err = submit.Ship(ctx, cfg, on, p.report)
	return err
}
